"""A storm: the next batch is claimed beside the one that is being published, and never a third."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from django_leased_cron.core.clock import BootTime
from django_leased_cron.core.events import BrokerOutage, JobFlagged
from django_leased_cron.core.occurrence import OccurrenceState
from django_leased_cron.core.outbox import TermLost
from django_leased_cron.core.publication import NotStarted, Publication, PublishResult
from django_leased_cron.exceptions import CommitOutcomeUnknownError, DatabaseUnavailableError, StoreError
from django_leased_cron.testing import RecordingPublisher
from tests.unit.supervision.process import Process

CLAIMED, SENT = OccurrenceState.CLAIMED, OccurrenceState.SENT
AWAY = DatabaseUnavailableError("default", "connection refused")
LOST = CommitOutcomeUnknownError("default", "the reply to COMMIT never came")


class WatchingPublisher(RecordingPublisher):
    """Counts what is claimed and not confirmed whenever a batch begins."""

    def __init__(self, process: Process) -> None:
        super().__init__(process.clock)
        self._process = process
        self.unconfirmed: list[int] = []

    def publish(self, publications: Sequence[Publication], *, start_deadline: BootTime) -> Iterator[PublishResult]:
        self.unconfirmed.append(self._process.outbox.states().count(CLAIMED))
        return super().publish(publications, start_deadline=start_deadline)


@pytest.fixture
def process() -> Process:
    """Seven jobs are due, and batches are of two."""
    process = Process(batch_size=2)
    process.plan(*range(1, 8))
    return process


def test_next_batch_is_claimed_before_one_is_through_and_no_third(process: Process) -> None:
    """Two batches in hand while more is due, one when nothing is."""
    process.publisher = WatchingPublisher(process)
    process.settle()
    assert process.sent() == [1, 2, 3, 4, 5, 6, 7]
    assert process.publisher.unconfirmed == [4, 4, 3, 1]
    assert process.outbox.states() == [SENT] * 7


def test_few_due_jobs_are_claimed_in_their_own_time(process: Process) -> None:
    """A batch that is not full says that nothing more is due: no thread, no query."""
    process = Process(batch_size=2)
    process.plan(1)
    process.publisher = WatchingPublisher(process)
    process.settle()
    assert process.publisher.unconfirmed == [1]
    assert process.count("claim") == 1


def test_batch_claimed_ahead_is_not_tried_on_a_broker_that_just_failed(process: Process) -> None:
    """Both wait for the broker, nothing more is claimed, and each goes out once."""
    process.publisher.answer(NotStarted)
    process.publisher.is_down = True
    dispatcher = process.settle()
    process.run(dispatcher, seconds=60)
    assert process.outbox.states() == [CLAIMED] * 4
    assert len(process.publisher.batches) == 1
    assert len(process.events.of(BrokerOutage)) == 1
    process.publisher.is_down = False
    process.run(dispatcher, seconds=60)
    assert sorted(process.sent()) == [1, 2, 3, 4, 5, 6, 7]


def test_seat_that_drains_publishes_what_it_has_claimed_ahead(process: Process) -> None:
    """It is not drained before, and it claims nothing more: nobody waits for an adoption."""
    process.seat.won(process.take_over(), process.clock.boot_time())
    while process.sent() != [1, 2]:
        process.seat.step(process.publisher)
    process.seat.drain()
    drained = [process.seat.is_drained]
    process.seat.step(process.publisher)
    drained.append(process.seat.is_drained)
    assert drained == [False, True]
    assert process.sent() == [1, 2, 3, 4]
    assert process.outbox.states() == [SENT] * 4


def test_seat_that_hands_over_publishes_what_it_has_claimed_ahead(process: Process) -> None:
    """And releases only then; the rest is for the successor."""
    epoch = process.take_over()
    process.seat.won(epoch, process.clock.boot_time())
    while process.sent() != [1, 2]:
        process.seat.step(process.publisher)
    process.seat.hand_over(epoch)
    process.seat.step(process.publisher)
    assert process.seat.term is None
    assert process.sent() == [1, 2, 3, 4]
    assert process.outbox.states() == [SENT] * 4


def test_term_lost_at_the_claim_ahead_confirms_what_went_out_meanwhile(process: Process) -> None:
    """The batch that was being published is the old term's to confirm (P2)."""
    process.on_beside = process.lose_lease
    dispatcher = process.begin_term()
    results = [dispatcher.step(process.publisher)]
    while not process.publisher.batches:
        results.append(dispatcher.step(process.publisher))
    assert isinstance(results[-1], TermLost)
    process.context.confirmer.flush(predecessors_adoptable_in_ms=None)
    assert process.sent() == [1, 2]
    assert process.outbox.states() == [SENT, SENT]


@pytest.mark.parametrize("error", [AWAY, LOST])
def test_claim_ahead_that_fails_loses_nothing(process: Process, error: StoreError) -> None:
    """Not made, or its reply lost: the batch beside it is confirmed, and each job goes out once."""
    fail = process.outbox.acts.lose_reply if error is LOST else process.outbox.acts.lose_request
    process.on_beside = lambda: fail("claim", error)
    dispatcher = process.begin_term()
    with pytest.raises(type(error)):
        process.run(dispatcher)
    assert process.sent() == [1, 2]
    process.on_beside = lambda: None
    process.run(dispatcher)
    assert sorted(process.sent()) == [1, 2, 3, 4, 5, 6, 7]
    assert process.outbox.states() == [SENT] * 7


def test_malformed_job_is_flagged_although_the_claim_ahead_fails() -> None:
    """Not first at its next firing: the fault beside has nothing to do with it."""
    process = Process(batch_size=2)
    process.plan(1, args="[")
    process.plan(2, 3, 4)
    process.on_beside = lambda: process.outbox.acts.lose_request("claim", AWAY)
    dispatcher = process.begin_term()
    with pytest.raises(DatabaseUnavailableError):
        process.run(dispatcher)
    process.on_beside = lambda: None
    process.run(dispatcher)
    [flagged] = process.events.of(JobFlagged)
    assert flagged.job_id == 1
