"""One term of one tenant: claim, publish, confirm, and plan in between."""

from __future__ import annotations

import pytest

from django_leased_cron.core.events import BatchDispatched, ClockSuspended
from django_leased_cron.core.occurrence import OccurrenceState, build_task_id
from django_leased_cron.core.outbox import ChangedJob, ChangeKind, JobRun, TermLost
from django_leased_cron.supervision.dispatcher import TermDispatcher
from tests.unit.core.job_rows import every, planning_inputs
from tests.unit.supervision.process import TENANT, TIMING, Process

HOURLY = every(3600)
IN_AN_HOUR_MS = 3_600_000


def claims(process: Process) -> int:
    return len(process.outbox.orders)


def settled(process: Process) -> TermDispatcher:
    """Begin a term and let it come to rest."""
    dispatcher = process.begin_term()
    process.run(dispatcher)
    return dispatcher


def test_due_job_is_claimed_published_and_confirmed(process: Process) -> None:
    """Once, under its own task id, and the database's clock says when."""
    due_at_ms = process.now_ms
    process.outbox.plan(7, HOURLY, due_at_ms=due_at_ms)
    settled(process)
    [publication] = process.publisher.accepted
    assert publication.task_id == build_task_id(tenant_key=TENANT, job_id=7, due_at_ms=due_at_ms)
    assert publication.headers["leased_cron"]["epoch"] == 1
    assert process.outbox.states() == [OccurrenceState.SENT]
    assert process.outbox.plans[7].next_due_at_ms == due_at_ms + IN_AN_HOUR_MS
    assert process.outbox.runs == [JobRun(job_id=7, runs=1, last_run_at_ms=process.now_ms, finished=False)]


def test_new_term_claims_at_once_though_nothing_is_due(process: Process) -> None:
    """Until then the lease is owed by whoever is gone, and everybody would go on taking it over."""
    process.outbox.plan(7, HOURLY, due_at_ms=process.now_ms + 10_000)
    process.leases.read([TENANT])
    process.leases.change(TENANT, owed_since_ms=process.now_ms - 60_000)
    process.step(process.begin_term())
    [order] = process.outbox.orders
    assert (order.advances, order.adoptions) == ([], [])
    assert process.leases.rows[TENANT].owed_since_ms == process.now_ms + 10_000


def test_empty_claim_is_made_once_a_term(process: Process) -> None:
    """An idle tenant costs no claims."""
    process.run(settled(process), seconds=60)
    assert claims(process) == 1


def test_job_is_dispatched_within_milliseconds_of_its_time(process: Process) -> None:
    """Known beforehand: not at the next poll."""
    process.outbox.plan(7, HOURLY, due_at_ms=process.now_ms + 10_203)
    process.run(settled(process), seconds=60)
    [batch] = process.events.of(BatchDispatched)
    assert (batch.sent, batch.failed, batch.unsent, batch.adopted) == (1, 0, 0, 0)
    assert batch.worst_lateness_ms <= 1


def test_each_second_of_a_job_is_dispatched_once(process: Process) -> None:
    """A minute of three one-second jobs."""
    for job_id in range(3):
        process.outbox.plan(job_id, every(1), due_at_ms=process.now_ms + 1000)
    process.run(settled(process), seconds=60.5)
    due = [(p.headers["leased_cron"]["job_id"], p.headers["leased_cron"]["due_at"]) for p in process.publisher.accepted]
    assert len(due) == len(set(due)) == 180


def test_claim_is_proof_of_the_lease_from_before_it_was_sent(process: Process) -> None:
    """Trust counts from there, however long the answer took."""
    process.outbox.plan(7, HOURLY, due_at_ms=process.now_ms)
    process.publisher.seconds_each = 1.5
    asked_at = process.clock.boot_time()
    process.run(process.begin_term())
    assert process.proofs == [(1, asked_at)]


def test_loop_shows_that_it_turns_with_each_message(process: Process) -> None:
    """A long batch is not a stuck loop."""
    for job_id in range(5):
        process.outbox.plan(job_id, HOURLY, due_at_ms=process.now_ms)
    settled(process)
    assert process.turns == 5


@pytest.mark.parametrize("due", [True, False])
def test_term_is_over_when_the_guard_says_so(process: Process, *, due: bool) -> None:
    """Nothing is published out of such a claim."""
    if due:
        process.outbox.plan(7, HOURLY, due_at_ms=process.now_ms)
    dispatcher = process.begin_term()
    process.lose_lease()
    assert isinstance(dispatcher.step(process.publisher), TermLost)
    assert process.publisher.batches == []
    assert process.proofs == []


def test_term_is_over_when_a_plan_may_not_be_written(process: Process) -> None:
    """An idle tenant learns it from its planner."""
    dispatcher = settled(process)
    process.lose_lease()
    process.outbox.changes = [change(ChangeKind.NEW)]
    process.clock.advance(TIMING.poll_interval_s)
    assert isinstance(dispatcher.step(process.publisher), TermLost)


def test_what_people_ask_for_by_hand_is_dispatched_like_any_other(process: Process) -> None:
    """Noticed at the next pass of the planner at the latest."""
    dispatcher = settled(process)
    process.outbox.plan(7, HOURLY, due_at_ms=process.now_ms + IN_AN_HOUR_MS)
    process.outbox.add(7, due_at_ms=process.now_ms, state=OccurrenceState.REQUESTED, epoch=0, attempt=0)
    process.run(dispatcher, seconds=TIMING.poll_interval_s)
    assert len(process.publisher.accepted) == 1
    assert process.outbox.states() == [OccurrenceState.SENT]


def test_job_whose_definition_changed_is_left_to_the_planner_at_once(process: Process) -> None:
    """The claim finds it out; the pass that follows does not wait for its turn."""
    process.outbox.plan(7, HOURLY, due_at_ms=process.now_ms)
    dispatcher = process.begin_term()
    process.outbox.jobs[7].inputs = every(60)
    process.outbox.changes = [change(ChangeKind.EDITED, planned_inputs=HOURLY, next_due_at_ms=process.now_ms)]
    process.run(dispatcher)
    assert process.publisher.accepted == []
    assert process.outbox.plans[7].next_due_at_ms == process.now_ms + 60_000


def test_job_disabled_before_the_claim_does_not_fire(process: Process) -> None:
    """Though the window that was read before showed it due."""
    process.outbox.plan(7, HOURLY, due_at_ms=process.now_ms + 1000)
    dispatcher = settled(process)
    process.outbox.jobs[7].enabled = False
    process.run(dispatcher, seconds=2)
    assert process.publisher.batches == []
    assert process.outbox.states() == [OccurrenceState.SKIPPED]


def test_job_gone_after_the_claim_is_skipped(process: Process) -> None:
    """Its definition is read after the commit, and is not there."""
    process.outbox.plan(7, HOURLY, due_at_ms=process.now_ms)
    process.outbox.add(8, due_at_ms=process.now_ms, state=OccurrenceState.REQUESTED, epoch=0, attempt=0)
    settled(process)
    assert [row.reason for row in process.outbox.occurrences.values() if row.job_id == 8] == ["deleted"]
    assert len(process.publisher.accepted) == 1


def test_one_off_that_had_its_run_is_told_to_be_finished(process: Process) -> None:
    """So that it runs once ever."""
    clocked = planning_inputs(clocked_id="1", clocked_time="2026-01-01 00:00:00", one_off="1")
    process.outbox.plan(7, clocked, due_at_ms=process.now_ms)
    settled(process)
    assert process.outbox.runs == [JobRun(job_id=7, runs=1, last_run_at_ms=process.now_ms, finished=True)]
    assert process.outbox.plans == {}


# Planning between the claims.


def change(
    kind: ChangeKind, *, job_id: int = 7, planned_inputs: str = "", next_due_at_ms: int | None = None
) -> ChangedJob:
    return ChangedJob(
        job_id=job_id,
        kind=kind,
        inputs=every(60),
        next_due_at_ms=next_due_at_ms,
        planned_inputs=planned_inputs,
        last_run_at=None,
    )


def passes(process: Process) -> int:
    return process.outbox.acts.done.count("find_changes")


def test_idle_tenant_is_passed_over_once_a_poll_interval(process: Process) -> None:
    """An edit is noticed within it."""
    dispatcher = settled(process)
    before = passes(process)
    process.run(dispatcher, seconds=10 * TIMING.poll_interval_s)
    assert passes(process) - before == 10


def test_planner_keeps_its_turn_in_a_storm(process: Process) -> None:
    """There is always something due, and edits are noticed within the poll interval and a second all the same."""
    for job_id in range(2000):
        process.outbox.plan(job_id, HOURLY, due_at_ms=process.now_ms)
    process.publisher.seconds_each = 0.01
    dispatcher = process.begin_term()
    last_at, longest = process.clock.boot_time(), 0.0
    while len(process.publisher.accepted) < 2000:
        before = passes(process)
        process.step(dispatcher)
        if passes(process) > before:
            longest = max(longest, process.clock.boot_time() - last_at)
            last_at = process.clock.boot_time()
    assert passes(process) >= 13
    assert longest <= TIMING.poll_interval_s + 1


def test_due_work_goes_before_a_pass_that_is_not_overdue(process: Process) -> None:
    """The first dispatch of a new term does not wait for a pass over all jobs."""
    process.outbox.plan(7, HOURLY, due_at_ms=process.now_ms)
    process.step(process.begin_term())
    assert len(process.publisher.accepted) == 1
    assert passes(process) == 0


def test_idle_loop_turns_often_enough_to_be_renewed(process: Process) -> None:
    """After a pass so long that the next one is far away, the keeper must not take the loop for a stuck one."""
    dispatcher = process.begin_term()
    process.step(dispatcher)
    process.outbox.seconds_a_pass = 2.0
    process.step(dispatcher)
    again_at = process.step(dispatcher)
    assert again_at - process.clock.boot_time() < TIMING.loop_stalled_after_s


# The database's clock.


@pytest.mark.parametrize("step_ms", [IN_AN_HOUR_MS, -IN_AN_HOUR_MS])
def test_step_of_the_databases_clock_suspends_claims_until_three_readings_agree(process: Process, step_ms: int) -> None:
    """Told once; then the new time counts."""
    process.outbox.plan(7, every(1), due_at_ms=process.now_ms + 1000)
    dispatcher = settled(process)
    process.leases.zero_ms += step_ms
    process.outbox.plan(8, every(1), due_at_ms=process.now_ms)
    process.clock.advance(1.0)
    process.step(dispatcher)  # claims by what it knew, and the reply shows the new time
    before = claims(process)
    for _ in range(3):
        process.clock.advance(TIMING.poll_interval_s)
        process.step(dispatcher)
    assert len(process.events.of(ClockSuspended)) == 1
    assert claims(process) == before
    process.run(dispatcher, seconds=2)
    assert claims(process) > before


# Housekeeping.


def test_old_occurrences_are_purged_a_little_at_a_time_when_nothing_is_due(process: Process) -> None:
    """The first pass a minute after the term began."""
    process.outbox.old = 1200
    dispatcher = settled(process)
    process.run(dispatcher, seconds=59)
    assert process.outbox.old == 1200
    process.run(dispatcher, seconds=3)
    assert process.outbox.old == 0
    before = process.outbox.acts.done.count("purge")
    process.run(dispatcher, seconds=50)
    assert process.outbox.acts.done.count("purge") == before
