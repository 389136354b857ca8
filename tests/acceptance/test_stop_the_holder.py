"""SIGTERM: the polite stop, and the impolite second one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connections, transaction

from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.forms import SCALED, Form, in_both_forms
from tests.acceptance.lines import ServerLine
from tests.acceptance.waiting import next_second_ms, now_ms, wait_for_instant

_AT_ONCE_S = 0.5
_APART_MS = 300
on_postgres_and_sqlite = pytest.mark.parametrize("stack", ["postgres-redis", "sqlite-filesystem"], indirect=True)


@in_both_forms
@on_postgres_and_sqlite
def test_stop_the_holder(fleet: Fleet, form: Form, report: Report) -> None:
    """The next holder is there at once, and what is due meanwhile is sent once."""
    fleet.leased_cron = form.leased_cron
    fleet.start(supervisors=3)
    jobs = fleet.add_jobs(3)
    fleet.wait_for_message(jobs, due_from_ms=jobs.first_due_ms)

    gaps_ms = []
    for _ in range(form.stops):
        holder = fleet.wait_for_holder()
        signalled_at_ms = now_ms()
        holder.terminate()
        fleet.wait_for_holder(other_than=holder)
        lease = fleet.read_lease()
        assert lease is not None
        gaps_ms.append(lease.acquired_at_ms - signalled_at_ms)
        assert holder.wait_for_exit(within_s=5) == 0
        fleet.start_supervisors(1)
    fleet.wait_for_message(jobs, due_from_ms=next_second_ms())
    account = fleet.finish(jobs, until_ms=next_second_ms())

    report(f"{account}, next holder after {', '.join(map(str, gaps_ms))} ms")
    assert max(gaps_ms) <= fleet.polite_gap_ms
    assert not account.lost
    assert not account.strangers
    assert not account.sent_again
    assert not account.not_run
    assert not account.run_twice


@on_postgres_and_sqlite
def test_stop_twice_while_a_step_hangs(cuttable_fleet: Fleet) -> None:
    """The first signal waits for what is in flight; the second one ends the process at once, with exit code 1."""
    fleet = cuttable_fleet
    # A publication that has begun may hang for seconds.
    fleet.leased_cron = {**SCALED, "LEASE_TTL": 30, "PUBLISH_TIMEOUT": 20}
    fleet.migrate()
    fleet.open_tap()
    (holder,) = fleet.start_supervisors(1)
    jobs = fleet.add_jobs(1)
    fleet.wait_for_message(jobs, due_from_ms=jobs.first_due_ms)

    with _steps_hanging(fleet):
        wait_for_instant(next_second_ms() + 100)
        holder.terminate()
        first_at_ms = now_ms()
        holder.wait_for_line("Stopping")
        wait_for_instant(first_at_ms + _APART_MS)
        assert holder.is_alive, holder.read_log()
        holder.terminate()
        assert holder.wait_for_exit(within_s=_AT_ONCE_S) == 1


@contextmanager
def _steps_hanging(fleet: Fleet) -> Iterator[None]:
    """Let a step of the dispatch loop last: a broker that says nothing, or a database that somebody else writes to."""
    if isinstance(fleet.broker.line, ServerLine):
        fleet.broker.line.silence()
        yield
    else:
        with transaction.atomic(using=fleet.database.alias), connections[fleet.database.alias].cursor() as cursor:
            cursor.execute("DELETE FROM leased_cron_occurrence WHERE id < 0")
            yield
