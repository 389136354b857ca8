"""Publishing: until when it may start (P1), one message at fault, and a broker that is away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from django_leased_cron.core.clock import BootTime, later
from django_leased_cron.core.events import BatchDispatched, BrokerOutage, BrokerRecovered
from django_leased_cron.core.occurrence import OccurrenceState
from django_leased_cron.core.publication import Accepted, NotStarted, Publication, PublishResult, Refused, Unknown
from django_leased_cron.testing import RecordingPublisher
from tests.unit.core.job_rows import every
from tests.unit.supervision.process import TIMING, Process

CLAIMED, SENT, FAILED = OccurrenceState.CLAIMED, OccurrenceState.SENT, OccurrenceState.FAILED


# P1


def test_right_to_publish_counts_from_before_the_claim(process: Process) -> None:
    """Half of the timeout from then on, however long the claim took."""
    process.plan(1)
    process.outbox.acts.seconds["claim"] = 2.0
    asked_at = process.clock.boot_time()
    process.run(process.begin_term())
    assert process.publisher.start_deadlines == [later(asked_at, TIMING.publish_timeout_s / 2)]


def test_what_could_not_start_in_time_is_claimed_anew(process: Process) -> None:
    """A second each: at 0, 1 and 2 three start; the others need another claim. The broker is not to blame."""
    process.plan(1, 2, 3, 4, 5)
    process.publisher.seconds_each = 1.0
    dispatcher = process.settle()
    assert process.outbox.states() == [SENT, SENT, SENT, CLAIMED, CLAIMED]
    process.run(dispatcher, seconds=5)
    assert process.sent() == [1, 2, 3, 4, 5]
    assert [publication.attempt for publication in process.publisher.accepted] == [1, 1, 1, 2, 2]
    assert process.events.of(BrokerOutage) == []


# One message at fault.


def test_refused_message_fails_visibly_and_the_batch_goes_on(process: Process) -> None:
    """Never tried again, and no outage."""
    process.plan(1, 2, 3)
    process.publisher.answer(Accepted, Refused)
    process.run(process.settle(), seconds=60)
    assert process.outbox.states() == [SENT, FAILED, SENT]
    assert "Refused" in process.outbox.occurrences[2].reason
    assert len(process.publisher.batches) == 1
    assert process.events.of(BrokerOutage) == []
    assert [run.job_id for run in process.outbox.runs] == [1, 3]


# A broker that is away.


def test_nothing_fresh_is_claimed_until_the_hand_is_empty(process: Process) -> None:
    """Five minutes' outage are not five minutes of outbox: what was in hand goes out first, then catch-up decides."""
    process.plan(1, 2, inputs=every(1))
    process.publisher.is_down = True
    dispatcher = process.settle()
    process.run(dispatcher, seconds=300)
    assert process.outbox.states() == [CLAIMED, CLAIMED]
    process.publisher.is_down = False
    process.run(dispatcher, seconds=2)
    assert process.sent()[:2] == [1, 2]
    assert [publication.attempt for publication in process.publisher.accepted[:3]] == [2, 2, 1]
    assert CLAIMED not in process.outbox.states()


def test_broker_is_asked_twice_a_second_at_most_and_at_least_that_often(process: Process) -> None:
    """Quick at first; bounded, because all that waits is as late as the next try."""
    process.plan(1)
    process.publisher.is_down = True
    dispatcher = process.settle()
    process.run(dispatcher, seconds=10)
    first = process.publisher.probes
    process.run(dispatcher, seconds=60)
    assert 20 <= first <= 24
    assert 119 <= process.publisher.probes - first <= 121


@pytest.mark.parametrize("answer", [Unknown, NotStarted])
def test_broker_that_answers_but_takes_nothing_is_not_hammered(
    process: Process, answer: type[Unknown] | type[NotStarted]
) -> None:
    """The probe gets through, the message does not."""
    process.plan(1)
    process.publisher.answer(*[answer] * 100)
    process.run(process.settle(), seconds=10)
    assert len(process.publisher.batches) <= 25
    assert len(process.events.of(BrokerOutage)) == 1


def test_outage_and_recovery_are_told_once_each(process: Process) -> None:
    """However many tries fail in it; and again in the next one."""
    process.plan(1, 2, inputs=every(60))
    for minutes in (1, 2):
        process.publisher.is_down = True
        dispatcher = process.settle()
        process.run(dispatcher, seconds=60)
        assert [event.in_hand for event in process.events.of(BrokerOutage)] == [2] * minutes
        assert len(process.events.of(BrokerRecovered)) == minutes - 1
        process.publisher.is_down = False
        process.run(dispatcher, seconds=2)
        assert len(process.events.of(BrokerRecovered)) == minutes
        process.clock.advance(56)


def test_outage_that_is_met_by_asking_first_is_told_too(process: Process) -> None:
    """The claim took too long to publish anything; by the time it is tried again, the broker is away."""
    process.plan(1)
    process.outbox.acts.seconds["claim"] = 3.0
    dispatcher = process.begin_term()
    process.step(dispatcher)
    assert process.events.of(BrokerOutage) == []
    process.publisher.is_down = True
    process.run(dispatcher, seconds=60)
    assert [event.in_hand for event in process.events.of(BrokerOutage)] == [1]


def test_delay_of_the_next_try_starts_small_again_after_a_recovery(process: Process) -> None:
    """Another hiccup is another story."""
    process.plan(1, inputs=every(60))
    process.publisher.is_down = True
    dispatcher = process.settle()
    process.run(dispatcher, seconds=10)
    process.publisher.is_down = False
    process.run(dispatcher, seconds=2)
    process.publisher.answer(NotStarted)
    process.run(dispatcher, seconds=48.5)
    assert len(process.publisher.accepted) == 2


# A publisher that breaks.


class BreakingPublisher:
    """Has one message accepted, then fails with an error of ours."""

    def publish(self, publications: Sequence[Publication], *, start_deadline: BootTime) -> Iterator[PublishResult]:
        yield Accepted(publication=publications[0], at=BootTime(1000))
        raise ZeroDivisionError

    def is_answering(self) -> bool:
        return True

    def close(self) -> None:
        """Nothing is held."""


def test_error_of_ours_in_the_middle_of_a_batch_forgets_nothing(process: Process) -> None:
    """What was accepted is confirmed and not sent again; the rest is adopted."""
    process.plan(1, 2, 3)
    dispatcher = process.begin_term()
    with pytest.raises(ZeroDivisionError):
        dispatcher.step(BreakingPublisher())
    process.run(dispatcher, seconds=1)
    assert process.sent() == [2, 3]
    assert process.outbox.states() == [SENT, SENT, SENT]


def test_batch_says_what_became_of_it(process: Process) -> None:
    """One line a batch: what was sent, what failed, what is left, how late."""
    process.plan(1, 2, 3, 4, due_in_s=-2)
    process.publisher.answer(Accepted, Refused, Unknown)
    process.run(process.settle(), seconds=1)
    first, second = process.events.of(BatchDispatched)
    assert (first.sent, first.failed, first.unsent, first.adopted, first.worst_lateness_ms) == (1, 1, 2, 0, 2000)
    assert (second.sent, second.failed, second.unsent, second.adopted) == (2, 0, 0, 2)
    assert 2100 <= second.worst_lateness_ms <= 3000


# One message on which the broker ends the connection


class PoisonedPublisher(RecordingPublisher):
    """The broker ends the connection on every message of one job, and on no other."""

    def _publish_one(self, publication: Publication) -> PublishResult:
        if publication.headers["leased_cron"]["job_id"] == POISON:
            return Unknown(publication=publication, reason="FRAME_ERROR")
        return super()._publish_one(publication)


POISON = 1


def test_message_that_breaks_the_connection_each_time_stops_nobody(process: Process) -> None:
    """It is given up when others were accepted meanwhile, and its job is flagged; theirs go out on time."""
    process.publisher = PoisonedPublisher(process.clock)
    process.plan(POISON, inputs=every(3600))
    process.plan(2, inputs=every(1))
    dispatcher = process.settle()
    process.run(dispatcher, seconds=20)
    assert process.sent().count(2) >= 19
    assert OccurrenceState.UNCERTAIN in process.outbox.states()
    assert [write.job_id for write in process.outbox.written if write.error] == [POISON]


def test_broker_that_takes_nothing_proves_nothing_against_one_message(process: Process) -> None:
    """However often it breaks: it is tried again, and sent when the broker is well."""
    process.plan(1)
    process.publisher.answer(*[Unknown] * 20)
    dispatcher = process.settle()
    process.run(dispatcher, seconds=30)
    assert process.sent() == [1]
    assert process.outbox.states() == [SENT]
