"""What a term does beside dispatching: plan, purge, watch the clock, wait."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from django_leased_cron.core.events import ClockSuspended
from django_leased_cron.core.outbox import ChangedJob, ChangeKind, TermLost
from tests.unit.core.job_rows import every
from tests.unit.supervision.process import HOURLY, TIMING, Process

HOUR_MS = 3_600_000


def changed(kind: ChangeKind, **columns: Any) -> ChangedJob:
    values: dict[str, Any] = {"next_due_at_ms": None, "planned_inputs": "", "last_run_at": None}
    return ChangedJob(job_id=7, kind=kind, inputs=every(60), **values | columns)


def test_idle_tenant_is_passed_over_once_a_poll_interval(process: Process) -> None:
    """An edit is noticed within it."""
    dispatcher = process.settle()
    before = process.count("find_changes")
    process.run(dispatcher, seconds=10 * TIMING.poll_interval_s)
    assert process.count("find_changes") - before == 10


def test_due_work_goes_before_the_first_pass(process: Process) -> None:
    """The first dispatch of a new term does not wait for a pass over all jobs."""
    process.plan(7)
    process.step(process.begin_term())
    assert process.sent() == [7]
    assert process.count("find_changes") == 0


def test_planner_keeps_its_turn_in_a_storm(process: Process) -> None:
    """Something is always due, and edits are noticed within the poll interval and a second all the same."""
    process.plan(*range(600))
    process.publisher.seconds_each = 0.01
    dispatcher = process.begin_term()
    pass_at, longest = process.clock.boot_time(), 0.0
    while len(process.publisher.accepted) < 600:
        before = process.count("find_changes")
        process.step(dispatcher)
        if process.count("find_changes") > before:
            pass_at, longest = process.clock.boot_time(), max(longest, process.clock.boot_time() - pass_at)
    assert process.clock.boot_time() - pass_at <= TIMING.poll_interval_s + 1
    assert longest <= TIMING.poll_interval_s + 1


def test_job_that_a_claim_found_edited_is_planned_at_once(process: Process) -> None:
    """It is due, and nobody may claim it on its old terms: the pass does not wait for its turn."""
    process.plan(7, due_in_s=0.125)
    dispatcher = process.settle()
    process.outbox.jobs[7].inputs = every(60)
    due_at_ms = process.outbox.plans[7].next_due_at_ms
    process.outbox.changes = [changed(ChangeKind.EDITED, planned_inputs=HOURLY, next_due_at_ms=due_at_ms)]
    process.clock.advance(0.125)
    process.run(dispatcher)
    assert process.sent() == []
    assert process.outbox.plans[7].next_due_at_ms == process.now_ms + 60_000


@pytest.mark.parametrize(("earlier_terms", "due_in_s"), [(0, -5), (1, 60)])
def test_only_a_tenants_first_term_goes_on_from_last_runs(process: Process, earlier_terms: int, due_in_s: int) -> None:
    """In a later one a new row is just new."""
    for _ in range(earlier_terms):
        process.take_over()
    last_run_at = str(datetime.fromtimestamp(process.now_ms / 1000 - 65, UTC))
    process.outbox.changes = [changed(ChangeKind.NEW, last_run_at=last_run_at)]
    dispatcher = process.begin_term()
    process.step(dispatcher)
    process.step(dispatcher)
    assert process.outbox.plans[7].next_due_at_ms == process.now_ms + due_in_s * 1000


def test_term_is_over_when_a_plan_may_not_be_written(process: Process) -> None:
    """An idle tenant learns it from its planner."""
    dispatcher = process.settle()
    process.lose_lease()
    process.outbox.changes = [changed(ChangeKind.NEW)]
    process.clock.advance(TIMING.poll_interval_s)
    assert isinstance(dispatcher.step(process.publisher), TermLost)


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])
def test_step_of_the_databases_clock_suspends_claims_until_three_readings_agree(process: Process, step_ms: int) -> None:
    """Told once; then the new time counts."""
    process.plan(7, due_in_s=3600)
    dispatcher = process.settle()
    process.leases.zero_ms += step_ms
    process.plan(8)
    process.clock.advance(TIMING.poll_interval_s)
    process.step(dispatcher)  # a pass of the planner: the next window is read anew
    for _ in range(2):
        process.step(dispatcher)
        assert process.sent() == []
        process.clock.advance(0.1)
    assert len(process.events.of(ClockSuspended)) == 1
    process.run(dispatcher, seconds=2 * TIMING.poll_interval_s)
    assert 8 in process.sent()
    assert len(process.events.of(ClockSuspended)) == 1


def test_old_occurrences_are_purged_a_part_at_a_time_once_a_minute(process: Process) -> None:
    """When nothing is due."""
    process.outbox.old = 1200
    dispatcher = process.settle()
    process.run(dispatcher, seconds=59)
    assert process.outbox.old == 1200
    process.run(dispatcher, seconds=3)
    assert process.outbox.old == 0
    before = process.count("purge")
    process.run(dispatcher, seconds=50)
    assert process.count("purge") == before
