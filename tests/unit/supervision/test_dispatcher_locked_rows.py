"""Somebody leaves a transaction open on one occurrence: that one waits, nothing else does, and nothing is lost."""

from __future__ import annotations

import pytest

from django_leased_cron.core.occurrence import OccurrenceState
from django_leased_cron.core.publication import NotStarted
from django_leased_cron.exceptions import CommitOutcomeUnknownError
from tests.unit.core.job_rows import every
from tests.unit.supervision.process import TENANT, TIMING, Process

CLAIMED, SENT = OccurrenceState.CLAIMED, OccurrenceState.SENT


def test_confirm_of_a_locked_row_is_made_up_when_the_lock_is_gone(process: Process) -> None:
    """The rest of its batch is recorded at once, what comes due goes on, and nothing is sent again."""
    process.plan(1, 2)
    process.plan(3, due_in_s=1)
    process.outbox.locked_occurrences.add(1)
    dispatcher = process.begin_term()
    process.run(dispatcher, seconds=10)
    assert process.outbox.states() == [CLAIMED, SENT, SENT]
    process.outbox.locked_occurrences.clear()
    process.run(dispatcher, seconds=1)
    assert process.outbox.states() == [SENT, SENT, SENT]
    assert process.sent() == [1, 2, 3]


def test_adoption_of_a_locked_row_is_put_off_and_fresh_work_goes_on(process: Process) -> None:
    """With what is known of it."""
    process.plan(1)
    process.plan(2, due_in_s=2)
    process.publisher.answer(NotStarted)
    dispatcher = process.settle()
    process.outbox.locked_occurrences.add(1)
    process.run(dispatcher, seconds=10)
    assert process.sent() == [2]
    process.outbox.locked_occurrences.clear()
    process.run(dispatcher, seconds=1)
    assert process.sent() == [2, 1]
    adoptions = [adoption for order in process.outbox.orders for adoption in order.adoptions]
    assert {(adoption.claim.attempt, adoption.never_started) for adoption in adoptions} == {(1, True)}


def test_predecessors_locked_claim_is_adopted_when_the_lock_is_gone(process: Process) -> None:
    """The others of its term at once."""
    process.plan(1, 2, due_in_s=86_400)
    process.take_over()
    for job_id in (1, 2):
        process.outbox.add(job_id, due_at_ms=process.now_ms)
    process.outbox.locked_occurrences.add(1)
    dispatcher = process.begin_term()
    process.run(dispatcher, seconds=TIMING.publish_timeout_s + 5)
    assert process.sent() == [2]
    process.outbox.locked_occurrences.clear()
    process.run(dispatcher, seconds=1)
    assert process.sent() == [2, 1]


def test_what_an_earlier_term_of_this_process_published_is_confirmed_and_not_sent_again(process: Process) -> None:
    """Its row is unlocked when it might be adopted and the next try of the confirm is not due yet (A2)."""
    process.plan(1)
    process.outbox.locked_occurrences.add(1)
    process.run(process.begin_term(), seconds=1.1)
    dispatcher = process.begin_term()
    process.run(dispatcher, seconds=TIMING.publish_timeout_s - 0.05)
    process.outbox.locked_occurrences.clear()
    process.run(dispatcher, seconds=1)
    assert process.outbox.states() == [SENT]
    assert process.sent() == [1]


def test_locked_row_is_read_back_when_the_lock_is_gone(process: Process) -> None:
    """The reply that claimed it was lost: it is in nobody's hands until then."""
    process.plan(1, 2)
    dispatcher = process.begin_term()
    process.outbox.acts.lose_reply("claim", CommitOutcomeUnknownError("default", "the reply to COMMIT never came"))
    with pytest.raises(CommitOutcomeUnknownError):
        process.run(dispatcher)
    process.outbox.locked_occurrences.add(1)
    for _ in range(20):
        process.step(dispatcher)
        process.clock.advance(0.1)
    assert process.sent() == [2]
    process.outbox.locked_occurrences.clear()
    process.run(dispatcher, seconds=1)
    assert process.sent() == [2, 1]


@pytest.mark.parametrize("answers", [(), (NotStarted,)], ids=["confirm", "adoption"])
def test_holder_that_waits_for_a_lock_shows_progress(process: Process, answers: tuple[type[NotStarted], ...]) -> None:
    """It owes that occurrence, but nobody could do better: more often than work is rescued."""
    process.plan(1)
    process.publisher.answer(*answers)
    process.outbox.locked_occurrences.add(1)
    dispatcher = process.begin_term()
    longest_ms = 0
    for _ in range(200):
        process.run(dispatcher, seconds=0.05)
        longest_ms = max(longest_ms, process.now_ms - process.leases.rows[TENANT].progressed_at_ms)
    assert longest_ms < (TIMING.rescue_after_ms or 0)


def test_locked_request_waits_alone(process: Process) -> None:
    """What people asked for by hand, while somebody looks at it: the rest goes on, at a few statements a second."""
    process.plan(1, due_in_s=2)
    process.plan(2, due_in_s=86_400)
    process.outbox.add(2, due_at_ms=process.now_ms, state=OccurrenceState.REQUESTED)
    process.outbox.locked_occurrences.add(1)
    dispatcher = process.begin_term()
    process.run(dispatcher, seconds=10)
    assert process.sent() == [1]
    assert process.count("claim") <= 10 / 0.4 + 3
    process.outbox.locked_occurrences.clear()
    process.run(dispatcher, seconds=1)
    assert process.sent() == [1, 2]


def test_lock_that_stays_costs_no_more_than_a_few_statements_a_second(process: Process) -> None:
    """However much else is dispatched meanwhile."""
    process.plan(1)
    process.plan(2, inputs=every(1), due_in_s=1)
    process.outbox.locked_occurrences.add(1)
    dispatcher = process.begin_term()
    process.run(dispatcher, seconds=60)
    assert process.count("confirm") <= 60 + 60 / 0.4 + 2
