"""Claims that were not confirmed: whose they are, and from when (A2, A3, A5)."""

from __future__ import annotations

import pytest

from django_leased_cron.core.events import BatchDispatched
from django_leased_cron.core.occurrence import OccurrenceState, SkipReason
from django_leased_cron.core.outbox import ClaimOrder
from django_leased_cron.core.publication import Accepted, NotStarted, Unknown
from tests.unit.core.job_rows import every
from tests.unit.supervision.process import TIMING, Process

CLAIMED, SENT, UNCERTAIN = OccurrenceState.CLAIMED, OccurrenceState.SENT, OccurrenceState.UNCERTAIN
TIMEOUT_S = TIMING.publish_timeout_s


def leave_claims(process: Process, *job_ids: int) -> None:
    """Leave what a holder of epoch 1 claimed before it died."""
    process.plan(*job_ids, due_in_s=86_400)
    process.take_over()
    for job_id in job_ids:
        process.outbox.add(job_id, due_at_ms=process.now_ms, task_id=f"task-{job_id}")


def adopted(order: ClaimOrder) -> list[int]:
    return [adoption.claim.occurrence_id for adoption in order.adoptions]


@pytest.mark.parametrize("was_unknown", [False, True])
def test_one_off_is_switched_off_when_a_later_attempt_sends_it(process: Process, *, was_unknown: bool) -> None:
    """Whoever claimed it first: a predecessor, or this term itself, whose order of then is forgotten."""
    process.plan(1, inputs=every(3600, one_off="1"))
    if was_unknown:
        process.publisher.answer(Unknown)
        process.run(process.settle(), seconds=1)
    else:
        process.take_over()
        del process.outbox.plans[1]
        process.outbox.add(1, due_at_ms=process.now_ms)
        process.run(process.settle(), seconds=TIMEOUT_S + 1)
    assert process.outbox.occurrences[1].attempt == 2
    assert [(run.job_id, run.finished) for run in process.outbox.runs] == [(1, True)]


# A2: the term's own.


def test_what_the_broker_accepted_is_never_adopted(process: Process) -> None:
    """What was not started, or failed, is: with the next attempt and the same task id."""
    process.plan(1, 2, 3)
    process.publisher.answer(Accepted, Unknown)
    dispatcher = process.settle()
    assert process.outbox.states() == [SENT, CLAIMED, CLAIMED]
    process.run(dispatcher, seconds=1)
    first, second = process.publisher.batches
    assert [(publication.attempt, publication.task_id) for publication in second] == [
        (2, publication.task_id) for publication in first[1:]
    ]
    assert process.outbox.states() == [SENT, SENT, SENT]


def test_adopter_says_what_it_knows_never_to_have_been_started(process: Process) -> None:
    """A job that was disabled meanwhile is then known not to have run."""
    process.plan(1, 2, 3)
    process.publisher.answer(Unknown)
    process.run(process.settle(), seconds=1)
    [order] = [order for order in process.outbox.orders if order.adoptions]
    assert [adoption.never_started for adoption in order.adoptions] == [False, True, True]
    assert order.in_hand == {(1, 1), (2, 1), (3, 1)}


def test_at_most_once_is_uncertain_at_once_where_it_may_have_been_published(process: Process) -> None:
    """And is never tried again, nor adopted by anybody."""
    process.plan(1, delivery="at_most_once")
    process.publisher.answer(Unknown)
    dispatcher = process.settle()
    assert process.outbox.states() == [UNCERTAIN]
    process.run(dispatcher, seconds=60)
    assert len(process.publisher.batches) == 1


def test_at_most_once_is_tried_again_where_it_was_surely_not_started(process: Process) -> None:
    """Only its claimer knows."""
    process.plan(1, delivery="at_most_once")
    process.publisher.answer(NotStarted)
    process.run(process.settle(), seconds=1)
    assert process.outbox.states() == [SENT]


def test_job_deleted_before_it_was_adopted_leaves_nothing_in_hand(process: Process) -> None:
    """It is settled by the claim that would have adopted it, and fresh work goes on."""
    process.plan(1)
    process.publisher.answer(NotStarted)
    dispatcher = process.settle()
    del process.outbox.jobs[1]
    process.plan(2, due_in_s=1)
    process.run(dispatcher, seconds=2)
    assert process.outbox.occurrences[1].reason == SkipReason.DELETED
    assert process.sent() == [2]


# A3: a predecessor's.


def test_predecessors_claim_waits_for_a_publish_timeout(process: Process) -> None:
    """Counted from the first sight of a higher epoch; until then its claimer may still publish it."""
    leave_claims(process, 1)
    dispatcher = process.begin_term()
    process.run(dispatcher, seconds=TIMEOUT_S - 0.001)
    assert process.publisher.batches == []
    process.run(dispatcher, seconds=0.001)
    [publication] = process.publisher.accepted
    assert (publication.attempt, publication.task_id) == (2, "task-1")
    [batch] = process.events.of(BatchDispatched)
    assert (batch.sent, batch.adopted) == (1, 1)


def test_wait_counts_from_what_the_process_saw_before_its_own_term(process: Process) -> None:
    """As a standby it saw the lease go on from epoch 1 some seconds ago; the term waits for the very moment."""
    leave_claims(process, 1)
    process.take_over()
    process.clock.advance(3.25)
    dispatcher = process.begin_term()
    process.run(dispatcher, seconds=1.75)
    assert process.sent() == [1]


def test_claim_of_an_own_earlier_term_is_a_predecessors(process: Process) -> None:
    """Whatever this process once knew of it: a new term has new memory."""
    process.plan(1)
    process.publisher.answer(NotStarted)
    process.settle()
    process.clock.advance(60)
    dispatcher = process.begin_term()
    process.run(dispatcher, seconds=TIMEOUT_S - 0.1)
    assert process.publisher.accepted == []
    process.run(dispatcher, seconds=0.1)
    assert process.sent() == [1]


def test_step_of_the_databases_clock_does_not_shorten_the_wait(process: Process) -> None:
    """Only boot time counts: a claim that looks an hour old may be a second old."""
    leave_claims(process, 1)
    dispatcher = process.begin_term()
    process.leases.zero_ms += 3_600_000
    process.run(dispatcher, seconds=TIMEOUT_S - 0.1)
    assert process.publisher.batches == []


def test_lease_owes_a_predecessors_claim_from_when_it_may_be_adopted(process: Process) -> None:
    """Not before: nobody could do better."""
    leave_claims(process, 1)
    process.step(process.begin_term())
    process.clock.advance(2)
    [order] = process.outbox.orders
    assert order.predecessors_adoptable_in_ms == 5000
    assert process.leases.rows["acme"].owed_since_ms == process.now_ms + 3000


def test_all_predecessors_claims_are_adopted_however_many() -> None:
    """More than are read at once."""
    process = Process(batch_size=3)
    leave_claims(process, *range(10))
    process.run(process.begin_term(), seconds=TIMEOUT_S)
    assert sorted(process.sent()) == [*range(10)]


# A5: how many, beside fresh work.


def fill_up(process: Process, *, fresh: int) -> ClaimOrder:
    """Have 200 claims to adopt and so many fresh jobs come due at the same moment; return the first order then."""
    leave_claims(process, *range(1000, 1200))
    process.plan(*range(fresh), due_in_s=TIMEOUT_S)
    dispatcher = process.begin_term()
    process.run(dispatcher, seconds=TIMEOUT_S - 0.5)
    process.clock.advance(0.5)
    process.step(dispatcher)
    return process.outbox.orders[-1]


def test_adoption_takes_at_most_half_of_a_batch_beside_fresh_work(process: Process) -> None:
    """The first batch is of 50."""
    order = fill_up(process, fresh=100)
    assert len(adopted(order)) == 25
    assert order.advances


@pytest.mark.parametrize("batch_size", [1, 2])
def test_adoption_takes_at_least_one_beside_fresh_work(batch_size: int) -> None:
    """Half of one is none: the claim would wait for ever."""
    assert len(adopted(fill_up(Process(batch_size=batch_size), fresh=100))) == 1


def test_adoption_takes_a_whole_batch_when_nothing_fresh_is_due(process: Process) -> None:
    """There is nothing to go before it."""
    assert len(adopted(fill_up(process, fresh=0))) == 50


@pytest.mark.parametrize("batch_size", [10, 500])
def test_fresh_and_adopted_together_are_one_batch(batch_size: int) -> None:
    """No more than are to be in hand at once."""
    order = fill_up(Process(batch_size=batch_size), fresh=600)
    assert len(order.advances) + len(order.adoptions) == min(batch_size, 50)
