"""One term of one tenant: claim, publish, confirm."""

from __future__ import annotations

import pytest

from django_leased_cron.core.events import BatchDispatched
from django_leased_cron.core.occurrence import OccurrenceState, SkipReason, build_task_id
from django_leased_cron.core.outbox import JobRun, TermLost
from tests.unit.core.job_rows import every, planning_inputs
from tests.unit.supervision.process import TENANT, Process

REQUESTED = OccurrenceState.REQUESTED


def test_due_job_is_claimed_published_and_confirmed(process: Process) -> None:
    """Once, under its own task id, and the plan moves on."""
    due_at_ms = process.now_ms
    process.plan(7)
    process.settle()
    [publication] = process.publisher.accepted
    assert publication.task_id == build_task_id(tenant_key=TENANT, job_id=7, due_at_ms=due_at_ms)
    assert publication.headers["leased_cron"]["epoch"] == 1
    assert process.outbox.states() == [OccurrenceState.SENT]
    assert process.outbox.plans[7].next_due_at_ms == due_at_ms + 3_600_000
    assert process.outbox.runs == [JobRun(job_id=7, runs=1, last_run_at_ms=process.now_ms, finished=False)]


def test_new_term_claims_at_once_though_nothing_is_due(process: Process) -> None:
    """Until then the lease is owed by whoever is gone, and everybody would go on taking it over."""
    process.plan(7, due_in_s=10)
    process.leases.read([TENANT])
    process.leases.change(TENANT, owed_since_ms=process.now_ms - 60_000)
    process.step(process.begin_term())
    [order] = process.outbox.orders
    assert (order.advances, order.adoptions) == ([], [])
    assert process.leases.rows[TENANT].owed_since_ms == process.now_ms + 10_000


def test_empty_claim_is_made_once_a_term(process: Process) -> None:
    """An idle tenant costs no claims."""
    process.run(process.settle(), seconds=60)
    assert process.count("claim") == 1


def test_job_is_dispatched_within_milliseconds_of_its_time(process: Process) -> None:
    """Known beforehand: not at the next poll."""
    process.plan(7, due_in_s=10.203)
    process.run(process.settle(), seconds=60)
    [batch] = process.events.of(BatchDispatched)
    assert (batch.sent, batch.failed, batch.unsent, batch.adopted) == (1, 0, 0, 0)
    assert batch.worst_lateness_ms <= 1


def test_each_second_of_a_job_is_dispatched_once(process: Process) -> None:
    """A minute of three one-second jobs."""
    process.plan(1, 2, 3, due_in_s=1, inputs=every(1))
    process.run(process.settle(), seconds=60.5)
    assert len(process.publisher.accepted) == 180
    assert len({publication.task_id for publication in process.publisher.accepted}) == 180


def test_claim_is_proof_of_the_lease_from_before_it_was_sent(process: Process) -> None:
    """Trust counts from there, however long the answer took."""
    process.outbox.acts.seconds["claim"] = 1.5
    asked_at = process.clock.boot_time()
    process.step(process.begin_term())
    assert process.proofs == [(1, asked_at)]


def test_loop_shows_that_it_turns_with_each_message(process: Process) -> None:
    """A long batch is not a stuck loop."""
    process.plan(1, 2, 3, 4, 5)
    process.settle()
    assert process.turns == 5


@pytest.mark.parametrize("jobs", [(), (7,)])
def test_term_is_over_when_the_guard_says_so(process: Process, jobs: tuple[int, ...]) -> None:
    """Nothing is published out of such a claim, and nothing is proved by it."""
    process.plan(*jobs)
    dispatcher = process.begin_term()
    process.lose_lease()
    assert isinstance(dispatcher.step(process.publisher), TermLost)
    assert process.publisher.batches == []
    assert process.proofs == []


def test_what_people_ask_for_by_hand_is_dispatched_like_any_other(process: Process) -> None:
    """Noticed within the poll interval."""
    dispatcher = process.settle()
    process.plan(7, due_in_s=3600)
    process.outbox.add(7, due_at_ms=process.now_ms, state=REQUESTED, epoch=0, attempt=0)
    process.run(dispatcher, seconds=0.5)
    assert process.sent() == [7]
    assert process.outbox.states() == [OccurrenceState.SENT]


def test_job_disabled_before_the_claim_does_not_fire(process: Process) -> None:
    """Though the window that was read before showed it due."""
    process.plan(7, due_in_s=1)
    dispatcher = process.settle()
    process.outbox.jobs[7].enabled = False
    process.run(dispatcher, seconds=2)
    assert process.publisher.batches == []
    assert process.outbox.states() == [OccurrenceState.SKIPPED]


def test_job_gone_after_the_claim_is_skipped(process: Process) -> None:
    """Its definition is read after the commit, and is not there; the rest of the batch goes on."""
    process.plan(7)
    gone = process.outbox.add(8, due_at_ms=process.now_ms, state=REQUESTED, epoch=0, attempt=0)
    process.settle()
    assert (gone.state, gone.reason) == (OccurrenceState.SKIPPED, SkipReason.DELETED)
    assert process.sent() == [7]


def test_one_off_that_had_its_run_is_told_to_be_finished(process: Process) -> None:
    """So that it runs once ever."""
    clocked = planning_inputs(clocked_id="1", clocked_time="2026-01-01 00:00:00", one_off="1")
    process.plan(7, inputs=clocked)
    process.settle()
    assert process.outbox.runs == [JobRun(job_id=7, runs=1, last_run_at_ms=process.now_ms, finished=True)]
    assert process.outbox.plans == {}
