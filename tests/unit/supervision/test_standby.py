"""Looking at all leases, and bidding for those that may be taken."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from queue import SimpleQueue
from unittest.mock import Mock

import pytest

from django_leased_cron.core.events import (
    DatabaseOutage,
    DatabaseRecovered,
    Event,
    LeaseAcquired,
    LoopFailed,
    RescueWithheld,
)
from django_leased_cron.core.lease import FREE, TakeoverReason
from django_leased_cron.exceptions import CommitOutcomeUnknownError, DatabaseUnavailableError
from django_leased_cron.lease_store.poll_timer import PollTimer
from django_leased_cron.supervision.standby import StandbyPoll
from tests.unit.supervision.process import TENANT, TIMING, Process

AWAY = DatabaseUnavailableError("default", "lock timeout")
UNKNOWN = CommitOutcomeUnknownError("default", "the reply to COMMIT never came")
A_MINUTE = 60.0


class SignallingTimer(PollTimer):
    """Says that a wait begins."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: SimpleQueue[float] = SimpleQueue()

    def wait(self, timeout_s: float) -> bool:
        self.waits.put(timeout_s)
        return super().wait(timeout_s)


class Bench:
    """The standby of a process with two tenants, ``acme`` and ``umbra``, in that order."""

    def __init__(self) -> None:
        self.acme = Process()
        self.umbra = Process(tenant_key="umbra", beside=self.acme)
        self.clock, self.leases = self.acme.clock, self.acme.leases
        self.publisher = self.acme.publisher
        self.events: SimpleQueue[Event] = SimpleQueue()
        self.wake_ups = SignallingTimer()
        self.standby = self.build(poll_interval_s=0.0)

    def build(self, *, poll_interval_s: float) -> StandbyPoll:
        return StandbyPoll(
            self.leases,
            self.wake_ups,
            [self.umbra.seat, self.acme.seat],
            holder_id="me",
            timing=replace(TIMING, poll_interval_s=poll_interval_s),
            is_broker_answering=self.publisher.is_answering,
            clock=self.clock,
            emit=self.events.put,
        )

    def hold(self, tenant_key: str, *, holder_id: str = "other", owed_for_s: float | None = None) -> None:
        """Have a lease held by somebody, who owes work for so long."""
        self.leases.read([tenant_key])
        now_ms = self.leases.now_ms
        self.leases.change(
            tenant_key,
            holder_id=holder_id,
            epoch=5,
            expires_at_ms=now_ms + 30_000,
            progressed_at_ms=now_ms - 5000,
            owed_since_ms=None if owed_for_s is None else now_ms - round(owed_for_s * 1000),
        )

    def told(self) -> list[Event]:
        return [self.events.get_nowait() for _ in range(self.events.qsize())]

    def holders(self) -> list[str]:
        return [row.holder_id for _, row in sorted(self.leases.rows.items())]


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def running(bench: Bench) -> Iterator[Bench]:
    """Return the same, to be started by the test and stopped afterwards."""
    yield bench
    bench.standby.stop(timeout_s=5)


def acquired(tenant_key: str, epoch: int, reason: TakeoverReason, previous: str = "other") -> LeaseAcquired:
    return LeaseAcquired(tenant_key=tenant_key, epoch=epoch, reason=reason, previous_holder_id=previous)


def test_free_leases_are_taken_and_their_terms_begin(bench: Bench) -> None:
    """One query for all tenants, one bid for each."""
    bench.standby.poll()
    assert bench.told() == [
        acquired(TENANT, 1, TakeoverReason.FREE, previous=FREE),
        acquired("umbra", 1, TakeoverReason.FREE, previous=FREE),
    ]
    assert bench.leases.acts.done == ["read", "try_acquire", "try_acquire"]
    for process in (bench.acme, bench.umbra):
        assert process.seat.term is not None
        assert process.wakes == 1
    bench.standby.poll()
    assert bench.leases.acts.done[3:] == ["read"]


def test_trust_in_a_won_lease_counts_from_before_the_bid(bench: Bench) -> None:
    """The bid took 29 seconds: one is left."""
    bench.hold("umbra")
    bench.leases.acts.seconds["try_acquire"] = 29
    bench.standby.poll()
    bench.clock.advance(1)
    bench.acme.seat.step(bench.publisher)
    assert bench.acme.seat.term is None


def test_lease_of_a_live_holder_is_left_alone(bench: Bench) -> None:
    """Nothing owed, not expired."""
    bench.hold(TENANT)
    bench.hold("umbra")
    bench.standby.poll()
    assert bench.holders() == ["other", "other"]
    assert bench.told() == []


def test_lease_taken_by_another_bidder_first_is_not_ours(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row is no longer as it was read."""
    reading = bench.leases.read([TENANT, "umbra"])
    bench.hold(TENANT)
    bench.hold("umbra")
    monkeypatch.setattr(bench.leases, "read", Mock(return_value=reading))
    bench.standby.poll()
    assert bench.acme.seat.term is None
    assert bench.told() == []


@pytest.mark.parametrize("lose", ["lose_request", "lose_reply"])
def test_bid_of_unknown_outcome_is_not_believed_in(bench: Bench, lose: str) -> None:
    """If it was ours, it runs out like anybody's, and is taken anew."""
    bench.hold("umbra")
    getattr(bench.leases.acts, lose)("try_acquire", UNKNOWN)
    bench.standby.poll()
    assert bench.acme.seat.term is None
    bench.clock.advance(31)
    bench.standby.poll()
    assert bench.acme.seat.term is not None


def test_lease_whose_row_is_locked_keeps_no_other_tenant_waiting(bench: Bench) -> None:
    """Somebody left a transaction open on it."""
    bench.leases.acts.lose_request("try_acquire", AWAY)
    bench.standby.poll()
    assert bench.holders() == [FREE, "me"]
    bench.standby.poll()
    assert bench.holders() == ["me", "me"]


def test_epochs_that_are_seen_are_remembered_for_adoption(bench: Bench) -> None:
    """From the first reading that shows them, whoever holds."""
    bench.hold(TENANT)
    bench.standby.poll()
    seen_at = bench.clock.boot_time()
    bench.clock.advance(3)
    bench.standby.poll()
    assert bench.acme.seat.sightings.adoptable_at(4) == seen_at + TIMING.publish_timeout_s
    assert bench.acme.seat.sightings.adoptable_at(5) is None


def test_epoch_that_was_won_is_remembered_from_the_reply(bench: Bench) -> None:
    """It shows the lease above every earlier epoch."""
    bench.leases.acts.seconds["try_acquire"] = 2
    bench.standby.poll()
    assert bench.acme.seat.sightings.adoptable_at(0) == 1002 + TIMING.publish_timeout_s


def test_higher_epoch_ends_the_term_that_is_believed_in(bench: Bench) -> None:
    """The database's own no, found by looking."""
    bench.standby.poll()
    bench.hold(TENANT)
    bench.standby.poll()
    assert bench.acme.seat.term is None
    assert bench.umbra.seat.term is not None


def test_own_lease_is_not_bid_for(bench: Bench) -> None:
    """However late its renewal, and whatever it owes."""
    bench.standby.poll()
    bench.told()
    bench.leases.change(TENANT, expires_at_ms=0, owed_since_ms=0)
    bench.standby.poll()
    assert bench.told() == []


# Rescue.


def test_owed_work_is_rescued(bench: Bench) -> None:
    """The lease is not expired."""
    bench.hold(TENANT, owed_for_s=1)
    bench.hold("umbra")
    bench.standby.poll()
    assert bench.told() == [acquired(TENANT, 6, TakeoverReason.RESCUE)]


def test_rescue_is_withheld_while_the_own_broker_does_not_answer(bench: Bench) -> None:
    """It could do no better. Told once, and acted on as soon as the broker is back."""
    bench.hold(TENANT, owed_for_s=1)
    bench.hold("umbra")
    bench.publisher.is_down = True
    for _ in range(3):
        bench.standby.poll()
    assert bench.told() == [RescueWithheld(tenant_key=TENANT)]
    assert bench.holders() == ["other", "other"]
    bench.publisher.is_down = False
    bench.standby.poll()
    assert bench.told() == [acquired(TENANT, 6, TakeoverReason.RESCUE)]


def test_free_or_expired_lease_is_taken_without_a_broker(bench: Bench) -> None:
    """Somebody has to hold it, and write down what comes due."""
    bench.publisher.is_down = True
    bench.hold(TENANT)
    bench.leases.change(TENANT, expires_at_ms=bench.leases.now_ms)
    bench.standby.poll()
    assert bench.holders() == ["me", "me"]
    assert bench.publisher.probes == 0


def test_withheld_rescue_is_told_again_when_it_happens_again(bench: Bench) -> None:
    """In between the holder did its work by itself."""
    bench.publisher.is_down = True
    for _ in range(2):
        bench.hold(TENANT, owed_for_s=1)
        bench.hold("umbra")
        bench.standby.poll()
        assert bench.told() == [RescueWithheld(tenant_key=TENANT)]
        bench.hold(TENANT)
        bench.standby.poll()


def test_broker_is_asked_once_a_poll_however_many_leases_wait(bench: Bench) -> None:
    """Each answer may take a second, and a thousand tenants may be owed at once."""
    bench.publisher.is_down = True
    bench.hold(TENANT, owed_for_s=1)
    bench.hold("umbra", owed_for_s=1)
    bench.standby.poll()
    assert bench.publisher.probes == 1


# The loop.


def test_database_that_is_away_is_told_once_and_waited_for(running: Bench) -> None:
    """A process that starts too early goes on by itself when the thing comes back."""
    running.leases.acts.lose_request("read", AWAY, times=50)
    running.standby.start()
    told = [running.events.get(timeout=5) for _ in range(4)]
    assert isinstance(told[0], DatabaseOutage)
    assert {type(event) for event in told[1:]} == {DatabaseRecovered, LeaseAcquired}


def test_row_that_stays_locked_is_told_once(running: Bench) -> None:
    """Not at each poll, though the other things a poll does work."""
    running.hold("umbra")
    running.leases.acts.lose_request("try_acquire", AWAY, times=20)
    running.standby.start()
    told: list[Event] = []
    while not told or not isinstance(told[-1], LeaseAcquired):
        told.append(running.events.get(timeout=5))
    assert sum(isinstance(event, DatabaseOutage) for event in told) == 1


def test_error_of_ours_does_not_end_the_loop(running: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A standby that died is no standby."""
    with monkeypatch.context() as broken:
        broken.setattr(running.leases, "read", Mock(side_effect=ZeroDivisionError))
        running.standby.start()
        assert isinstance(running.events.get(timeout=5), LoopFailed)
    while not isinstance(running.events.get(timeout=5), LeaseAcquired):
        pass


def test_wake_up_ends_the_wait(running: Bench) -> None:
    """A release is noticed at once, not at the next poll; so is the end."""
    running.hold(TENANT)
    running.hold("umbra")
    running.standby = running.build(poll_interval_s=A_MINUTE)
    running.standby.start()
    assert running.wake_ups.waits.get(timeout=5) == A_MINUTE
    running.leases.release(tenant_key=TENANT, holder_id="other", epoch=5)
    running.wake_ups.wake()
    assert running.events.get(timeout=5) == acquired(TENANT, 6, TakeoverReason.FREE, previous=FREE)
    running.standby.stop(timeout_s=1)
    assert "leased-cron-standby-default" not in {thread.name for thread in threading.enumerate()}


def test_no_bid_is_made_after_the_stop(running: Bench) -> None:
    """What is released from then on is for others."""
    running.hold(TENANT)
    running.hold("umbra")
    running.standby.start()
    running.standby.stop(timeout_s=5)
    running.leases.release(tenant_key=TENANT, holder_id="other", epoch=5)
    running.standby.poll()
    assert running.holders() == [FREE, "other"]
