"""A database that does not answer, or whose answer is lost (A4, I7): nothing is lost, and nothing goes out twice."""

from __future__ import annotations

import pytest

from django_leased_cron.core.occurrence import OccurrenceState
from django_leased_cron.core.publication import NotStarted
from django_leased_cron.exceptions import CommitOutcomeUnknownError, DatabaseUnavailableError, StoreError
from django_leased_cron.supervision.dispatcher import TermDispatcher
from tests.unit.supervision.process import TIMING, Process

LOST = CommitOutcomeUnknownError("default", "the reply to COMMIT never came")
AWAY = DatabaseUnavailableError("default", "connection refused")


def step_in_vain(process: Process, dispatcher: TermDispatcher, error: StoreError) -> None:
    """Step until the database fails as it was told to: a pass of the planner may come first."""
    with pytest.raises(type(error)):
        process.run(dispatcher)


def test_claim_whose_reply_was_lost_is_read_back_and_published(process: Process) -> None:
    """At once, by the next claim, once."""
    process.plan(1, 2)
    dispatcher = process.begin_term()
    process.outbox.acts.lose_reply("claim", LOST)
    step_in_vain(process, dispatcher, LOST)
    assert process.publisher.batches == []
    process.run(dispatcher)
    assert process.sent() == [1, 2]
    assert [order.read_back for order in process.outbox.orders] == [False, True]


def test_every_claim_reads_back_until_one_has_come_to_an_end(process: Process) -> None:
    """A second reply is lost, and more is to be read back than one claim may take."""
    process = Process(batch_size=2)
    process.plan(*range(6))
    dispatcher = process.begin_term()
    for _ in range(2):
        process.outbox.acts.lose_reply("claim", LOST)
        step_in_vain(process, dispatcher, LOST)
    process.run(dispatcher)
    assert sorted(process.sent()) == [*range(6)]
    assert [order.read_back for order in process.outbox.orders] == [False, True, True, True]
    process.plan(6, due_in_s=0.25)
    process.run(dispatcher, seconds=1)
    assert not process.outbox.orders[-1].read_back


def test_claim_that_never_reached_the_database_is_simply_made_again(process: Process) -> None:
    """There is nothing to read back."""
    process.plan(1)
    dispatcher = process.begin_term()
    process.outbox.acts.lose_request("claim", AWAY)
    step_in_vain(process, dispatcher, AWAY)
    process.run(dispatcher)
    assert process.sent() == [1]
    assert not any(order.read_back for order in process.outbox.orders)


def test_lost_reply_of_a_retry_loses_nothing_in_hand(process: Process) -> None:
    """The row has another attempt than the hand knows of: it is read back with that one."""
    process.plan(1)
    process.publisher.answer(NotStarted)
    dispatcher = process.settle()
    process.clock.advance(1)
    process.outbox.acts.lose_reply("claim", LOST)
    step_in_vain(process, dispatcher, LOST)
    process.run(dispatcher, seconds=1)
    [publication] = process.publisher.accepted
    assert publication.attempt == 3
    assert process.outbox.states() == [OccurrenceState.SENT]


def test_lost_reply_of_an_adoption_loses_nothing_of_the_predecessor(process: Process) -> None:
    """The same for what an earlier term had claimed."""
    process.plan(1, due_in_s=3600)
    process.take_over()
    process.outbox.add(1, due_at_ms=process.now_ms)
    dispatcher = process.begin_term()
    process.run(dispatcher, seconds=TIMING.publish_timeout_s - 0.5)
    process.clock.advance(0.5)
    process.outbox.acts.lose_reply("claim", LOST)
    step_in_vain(process, dispatcher, LOST)
    process.run(dispatcher)
    assert [publication.attempt for publication in process.publisher.accepted] == [3]


def test_next_term_adopts_what_a_lost_reply_left_behind(process: Process) -> None:
    """The term ends before it could read back: those are a predecessor's claims by then."""
    process.plan(1)
    process.outbox.acts.lose_reply("claim", LOST)
    step_in_vain(process, process.begin_term(), LOST)
    dispatcher = process.settle()
    assert process.publisher.batches == []
    process.run(dispatcher, seconds=TIMING.publish_timeout_s)
    assert process.sent() == [1]


@pytest.mark.parametrize("error", [LOST, AWAY])
def test_accepted_message_whose_confirm_failed_is_confirmed_again_and_never_sent_again(
    process: Process, error: StoreError
) -> None:
    """Whether or not the confirm was done: sent again it matches nothing."""
    process.plan(1, 2)
    dispatcher = process.begin_term()
    (process.outbox.acts.lose_reply if error is LOST else process.outbox.acts.lose_request)("confirm", error)
    step_in_vain(process, dispatcher, error)
    process.run(dispatcher, seconds=60)
    assert process.sent() == [1, 2]
    assert process.outbox.states() == [OccurrenceState.SENT] * 2


def test_nothing_is_claimed_while_a_confirm_is_owed(process: Process) -> None:
    """Whatever else is due: what is in hand stays two batches at most."""
    process.plan(1)
    process.plan(2, due_in_s=1)
    dispatcher = process.begin_term()
    for _ in range(5):
        process.outbox.acts.lose_request("confirm", AWAY)
        step_in_vain(process, dispatcher, AWAY)
        process.clock.advance(1)
    assert process.sent() == [1]
    process.run(dispatcher)
    assert process.sent() == [1, 2]


@pytest.mark.parametrize("act", ["read_predecessors", "read_window", "claim", "find_changes"])
def test_database_that_is_away_for_a_step_costs_nothing_but_time(process: Process, act: str) -> None:
    """A new term's first steps, wherever they are cut short."""
    process.plan(1)
    dispatcher = process.begin_term()
    process.outbox.acts.lose_request(act, AWAY)
    for _ in range(10):
        try:
            process.step(dispatcher)
        except DatabaseUnavailableError:
            process.clock.advance(0.2)
    assert process.sent() == [1]
    assert process.count("find_changes") >= 1
