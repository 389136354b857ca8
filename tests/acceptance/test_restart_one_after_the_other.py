"""A rolling deploy: every process is stopped politely and replaced, and the jobs go on."""

from __future__ import annotations

from statistics import median

import pytest

from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.forms import DEFAULTS, Form, in_both_forms, others_in_full
from tests.acceptance.stacks import STACKS
from tests.acceptance.waiting import next_second_ms, now_ms, wait_for_instant

_LATE_MS = 200
_STOPS = 50
on_postgres_and_sqlite = pytest.mark.parametrize("stack", ["postgres-redis", "sqlite-filesystem"], indirect=True)


@pytest.mark.parametrize("stack", others_in_full(*STACKS), indirect=True)
@in_both_forms
def test_restart_three_processes_one_after_the_other(fleet: Fleet, form: Form, report: Report) -> None:
    """Nothing is late by more than the hand-over takes, nothing is lost, nothing is sent twice."""
    fleet.leased_cron = form.leased_cron
    fleet.start(supervisors=3)
    jobs = fleet.add_jobs(3)
    fleet.wait_for_message(jobs, due_from_ms=jobs.first_due_ms)

    for _ in range(form.rolls):
        for process in fleet.running_supervisors():
            process.terminate()
            assert process.wait_for_exit(within_s=10) == 0
            fleet.start_supervisors(1)
    fleet.wait_for_message(jobs, due_from_ms=next_second_ms())
    account = fleet.finish(jobs, until_ms=next_second_ms())

    late_ms = account.worst_lateness_ms()
    report(f"{account}, {late_ms} ms late at worst")
    assert late_ms <= (0 if fleet.database.announces_releases else fleet.polite_gap_ms) + _LATE_MS
    assert not account.lost
    assert not account.strangers
    assert not account.sent_again
    assert not account.not_run
    assert not account.run_twice


@pytest.mark.full
@pytest.mark.timeout(900)
@on_postgres_and_sqlite
def test_stop_fifty_holders(fleet: Fleet, report: Report) -> None:
    """From the signal to the next holder, with the default settings."""
    fleet.leased_cron = DEFAULTS
    fleet.start(supervisors=2)
    jobs = fleet.add_jobs(1)
    fleet.wait_for_message(jobs, due_from_ms=jobs.first_due_ms)

    gaps_ms = []
    for number in range(_STOPS):
        holder = fleet.wait_for_holder()
        # Spread over the second, and so over a standby's poll, which begins anew with each process.
        wait_for_instant(next_second_ms() + number * 1000 // _STOPS)
        signalled_at_ms = now_ms()
        holder.terminate()
        fleet.wait_for_holder(other_than=holder)
        lease = fleet.read_lease()
        assert lease is not None
        gaps_ms.append(lease.acquired_at_ms - signalled_at_ms)
        assert holder.wait_for_exit(within_s=5) == 0
        fleet.start_supervisors(1)
    account = fleet.finish(jobs, until_ms=next_second_ms())

    gaps_ms.sort()
    p95_ms = gaps_ms[_STOPS * 95 // 100]
    late_ms = account.worst_lateness_ms()
    report(
        f"next holder after {median(gaps_ms):.0f} ms (median), {p95_ms} ms (p95), {gaps_ms[-1]} ms (worst);"
        f" {account}, {late_ms} ms late at worst"
    )
    assert p95_ms <= fleet.polite_gap_ms
    assert not account.lost
    assert not account.sent_again
    assert not account.run_twice
