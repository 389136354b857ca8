"""Processes that come and go while they share the tenants."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from django_leased_cron.core.occurrence import build_task_id
from django_leased_cron.models import JobState, SchedulerLease
from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.forms import SCALED
from tests.acceptance.jobs import Jobs, add_jobs
from tests.acceptance.waiting import next_second_ms, try_until, wait_for_instant, wait_until

_LEVEL_WITHIN_S = 30.0
_CONNECTIONS_EACH = 20
"""What four processes and this test may need for one tenant in a database of its own."""


@pytest.mark.timeout(180)
@pytest.mark.parametrize("stack", ["postgres-redis", "sqlite-filesystem"], indirect=True)
def test_processes_join_and_leave(fleet: Fleet, report: Report) -> None:
    """Twelve tenants: shares level out each time, few tenants move, and each due second is dispatched once."""
    tenants = _lay_out(fleet, 12 if fleet.database.find_room() >= 12 * _CONNECTIONS_EACH else 4)
    fleet.open_tap()
    running = [*fleet.start_supervisors(3)]
    _wait_for_shares(tenants, 3)
    jobs = _add_jobs(tenants)
    before = _read_holders(tenants)

    running += fleet.start_supervisors(1)
    joined = _wait_for_shares(tenants, 4)
    running[0].terminate()
    assert running[0].wait_for_exit(within_s=10) == 0
    left = _wait_for_shares(tenants, 3)
    until_ms = next_second_ms(after_s=2)

    missing = _wait_for_messages(fleet, jobs, until_ms=until_ms)
    fleet.stop_supervisors()
    sent = Counter(message.task_id for message in fleet.tap.messages)
    worst_ms = max(message.lateness_ms for message in fleet.tap.messages)
    moves = [_count_moves(before, joined), _count_moves(joined, left)]
    held = Counter(joined.values())[_find_holder_of(running[0].pid, joined)]
    report(
        f"{len(tenants)} tenants, {sum(sent.values())} sent, {worst_ms} ms late at worst;"
        f" moved {moves[0]} when one joined, {moves[1]} when one with {held} left"
    )
    assert not missing
    assert [task_id for task_id, count in sent.items() if count > 1] == []
    assert moves[0] <= len(tenants) // 4 + 2
    assert moves[1] <= held + 2


def _lay_out(fleet: Fleet, count: int) -> Sequence[str]:
    """Give each tenant a database; return their aliases, which are the tenants' keys."""
    copies = [fleet.add_copy(number) for number in range(count)]
    aliases = [copy.alias for copy in copies]
    fleet.environment = {"EXAMPLE_DATABASE_URLS": json.dumps({copy.alias: copy.url for copy in copies})}
    fleet.leased_cron = {
        **SCALED,
        "TENANTS": {"BACKEND": "django_leased_cron.tenants.DatabaseTenants", "OPTIONS": {"aliases": aliases}},
    }
    return aliases


def _add_jobs(tenants: Sequence[str]) -> Mapping[str, Jobs]:
    """Add a job of one second for each tenant; return them with the instant from which on all are planned."""
    first_due_ms = next_second_ms() - 1000
    jobs = {alias: add_jobs(alias, 1, every_s=1, first_due_ms=first_due_ms) for alias in tenants}

    def find() -> Sequence[int] | None:
        planned = [JobState.objects.using(alias).values_list("next_due_at_ms", flat=True).first() for alias in tenants]
        due_at_ms = [at_ms for at_ms in planned if at_ms is not None]
        return due_at_ms if len(due_at_ms) == len(tenants) else None

    first_due_ms = max(wait_until(find, "all jobs to be planned", within_s=_LEVEL_WITHIN_S))
    return {alias: replace(each, first_due_ms=first_due_ms) for alias, each in jobs.items()}


def _read_holders(tenants: Sequence[str]) -> Mapping[str, str]:
    return {alias: SchedulerLease.objects.using(alias).get().holder_id for alias in tenants}


def _wait_for_shares(tenants: Sequence[str], processes: int) -> Mapping[str, str]:
    """Return who holds what, as soon as so many processes have shares that differ by one at most."""

    def find() -> Mapping[str, str] | None:
        rows = [SchedulerLease.objects.using(alias).first() for alias in tenants]
        holders = {alias: row.holder_id for alias, row in zip(tenants, rows, strict=True) if row and row.holder_id}
        shares = Counter(holders.values())
        is_level = len(shares) == processes and max(shares.values()) - min(shares.values()) <= 1
        return holders if is_level and len(holders) == len(tenants) else None

    return wait_until(find, f"level shares of {processes} processes", within_s=_LEVEL_WITHIN_S, every_s=0.1)


def _wait_for_messages(fleet: Fleet, jobs: Mapping[str, Jobs], *, until_ms: int) -> set[str]:
    """Return the task ids of what was due and did not arrive in time."""
    due = {
        build_task_id(tenant_key=tenant_key, job_id=job_id, due_at_ms=at_ms)
        for tenant_key, each in jobs.items()
        for job_id, at_ms in each.due_until(until_ms)
    }
    wait_for_instant(until_ms)
    try_until(lambda: due <= {message.task_id for message in fleet.tap.messages}, within_s=10, every_s=0.1)
    return due - {message.task_id for message in fleet.tap.messages}


def _count_moves(before: Mapping[str, str], after: Mapping[str, str]) -> int:
    return sum(after[tenant_key] != holder_id for tenant_key, holder_id in before.items())


def _find_holder_of(pid: int, holders: Mapping[str, str]) -> str:
    return next(holder_id for holder_id in holders.values() if holder_id.rsplit("-", 2)[1] == str(pid))
