"""Looking at all leases, and bidding for those that may be taken."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from django_leased_cron.core.events import DatabaseOutage, DatabaseRecovered, LeaseAcquired, RescueWithheld
from django_leased_cron.core.lease import FREE, TakeoverReason
from django_leased_cron.exceptions import CommitOutcomeUnknownError, DatabaseUnavailableError
from tests.unit.supervision.process import TENANT, TIMING
from tests.unit.supervision.standby_bench import StandbyBench, acquired

AWAY = DatabaseUnavailableError("default", "lock timeout")
UNKNOWN = CommitOutcomeUnknownError("default", "the reply to COMMIT never came")


@pytest.fixture
def bench() -> StandbyBench:
    return StandbyBench()


def test_free_leases_are_taken_and_their_terms_begin(bench: StandbyBench) -> None:
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


def test_trust_in_a_won_lease_counts_from_before_the_bid(bench: StandbyBench) -> None:
    """The bid took 29 seconds: one is left."""
    bench.hold("umbra")
    bench.leases.acts.seconds["try_acquire"] = 29
    bench.standby.poll()
    bench.clock.advance(1)
    bench.acme.seat.step(bench.publisher)
    assert bench.acme.seat.term is None


def test_lease_of_a_live_holder_is_left_alone(bench: StandbyBench) -> None:
    """Nothing owed, not expired."""
    bench.hold(TENANT)
    bench.hold("umbra")
    bench.standby.poll()
    assert bench.holders() == ["other", "other"]
    assert bench.told() == []


def test_lease_taken_by_another_bidder_first_is_not_ours(bench: StandbyBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row is no longer as it was read."""
    reading = bench.leases.read([TENANT, "umbra"])
    bench.hold(TENANT)
    bench.hold("umbra")
    monkeypatch.setattr(bench.leases, "read", Mock(return_value=reading))
    bench.standby.poll()
    assert bench.acme.seat.term is None
    assert bench.told() == []


@pytest.mark.parametrize("lose", ["lose_request", "lose_reply"])
def test_bid_of_unknown_outcome_is_not_believed_in(bench: StandbyBench, lose: str) -> None:
    """If it was ours, it runs out like anybody's, and is taken anew."""
    bench.hold("umbra")
    getattr(bench.leases.acts, lose)("try_acquire", UNKNOWN)
    bench.standby.poll()
    assert bench.acme.seat.term is None
    bench.clock.advance(31)
    bench.standby.poll()
    assert bench.acme.seat.term is not None


def test_lease_whose_row_is_locked_keeps_no_other_tenant_waiting(bench: StandbyBench) -> None:
    """Somebody left a transaction open on it."""
    bench.leases.acts.lose_request("try_acquire", AWAY)
    bench.standby.poll()
    assert bench.holders() == [FREE, "me"]
    bench.standby.poll()
    assert bench.holders() == ["me", "me"]


def test_epochs_that_are_seen_are_remembered_for_adoption(bench: StandbyBench) -> None:
    """From the first reading that shows them, whoever holds."""
    bench.hold(TENANT)
    bench.standby.poll()
    seen_at = bench.clock.boot_time()
    bench.clock.advance(3)
    bench.standby.poll()
    assert bench.acme.seat.sightings.adoptable_at(4) == seen_at + TIMING.publish_timeout_s
    assert bench.acme.seat.sightings.adoptable_at(5) is None


def test_epoch_that_was_won_is_remembered_from_the_reply(bench: StandbyBench) -> None:
    """It shows the lease above every earlier epoch."""
    bench.leases.acts.seconds["try_acquire"] = 2
    bench.standby.poll()
    assert bench.acme.seat.sightings.adoptable_at(0) == 1002 + TIMING.publish_timeout_s


def test_higher_epoch_ends_the_term_that_is_believed_in(bench: StandbyBench) -> None:
    """The database's own no, found by looking."""
    bench.standby.poll()
    bench.hold(TENANT)
    bench.standby.poll()
    assert bench.acme.seat.term is None
    assert bench.umbra.seat.term is not None


def test_own_lease_is_not_bid_for(bench: StandbyBench) -> None:
    """However late its renewal, and whatever it owes."""
    bench.standby.poll()
    bench.told()
    bench.leases.change(TENANT, expires_at_ms=0, owed_since_ms=0)
    bench.standby.poll()
    assert bench.told() == []


# Hand-over.


def test_holder_that_is_asked_hands_over_and_bids_again_after_two_polls(bench: StandbyBench) -> None:
    """The lease is free for others meanwhile; the tenant that nobody asked about stays."""
    bench.standby.poll()
    bench.leases.request_hand_over(bench.leases.rows[TENANT])
    bench.standby.poll()
    bench.acme.seat.step(bench.publisher)
    bench.told()
    for _ in range(2):
        bench.standby.poll()
        assert bench.holders() == [FREE, "me"]
        bench.clock.advance(TIMING.poll_interval_s)
    bench.standby.poll()
    assert bench.told() == [acquired(TENANT, 2, TakeoverReason.FREE, previous=FREE)]


def test_request_to_another_holder_makes_the_next_look_come_soon(bench: StandbyBench) -> None:
    """Noticing takes the holder a poll; the standby's own is not to come on top. A holder that is dead is no reason."""
    standby = bench.build(poll_interval_s=TIMING.poll_interval_s)
    bench.hold(TENANT)
    bench.hold("umbra")
    assert standby.poll() == TIMING.poll_interval_s
    bench.leases.request_hand_over(bench.leases.rows[TENANT])
    assert standby.poll() < 0.1
    assert bench.told() == []
    bench.clock.advance(2 * TIMING.poll_interval_s + 0.001)
    assert standby.poll() == TIMING.poll_interval_s
    bench.leases.release(tenant_key=TENANT, holder_id="other", epoch=5)
    assert standby.poll() == TIMING.poll_interval_s
    assert bench.told() == [acquired(TENANT, 6, TakeoverReason.FREE, previous=FREE)]


# Rescue.


def test_owed_work_is_rescued(bench: StandbyBench) -> None:
    """The lease is not expired."""
    bench.hold(TENANT, owed_for_s=1)
    bench.hold("umbra")
    bench.standby.poll()
    assert bench.told() == [acquired(TENANT, 6, TakeoverReason.RESCUE)]


def test_rescue_is_withheld_while_the_own_broker_does_not_answer(bench: StandbyBench) -> None:
    """It could do no better. Told once, and left to the holder for a while after the broker is back."""
    bench.hold(TENANT, owed_for_s=1)
    bench.hold("umbra")
    bench.publisher.is_down = True
    for _ in range(3):
        bench.standby.poll()
    assert bench.told() == [RescueWithheld(tenant_key=TENANT)]
    assert bench.holders() == ["other", "other"]
    bench.publisher.is_down = False
    bench.standby.poll()
    assert bench.told() == []
    bench.clock.advance(TIMING.rescue_rest_s)
    bench.standby.poll()
    assert bench.told() == [acquired(TENANT, 6, TakeoverReason.RESCUE)]


def test_rest_after_a_broker_was_away_counts_from_its_silence(
    bench: StandbyBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not from before it was asked, which may take as long as the rest itself."""
    answers = [True, False]

    def answer_slowly() -> bool:
        bench.clock.advance(1)
        return answers.pop()

    monkeypatch.setattr(bench.publisher, "is_answering", answer_slowly)
    bench.standby = bench.build(poll_interval_s=0.0)
    bench.hold(TENANT, owed_for_s=1)
    bench.hold("umbra")
    bench.standby.poll()
    bench.clock.advance(TIMING.rescue_rest_s - 1)
    bench.standby.poll()
    assert bench.told() == [RescueWithheld(tenant_key=TENANT)]


def test_free_or_expired_lease_is_taken_without_a_broker(bench: StandbyBench) -> None:
    """Somebody has to hold it, and write down what comes due."""
    bench.publisher.is_down = True
    bench.hold(TENANT)
    bench.leases.change(TENANT, expires_at_ms=bench.leases.now_ms)
    bench.standby.poll()
    assert bench.holders() == ["me", "me"]
    assert bench.publisher.probes == 0


def test_withheld_rescue_is_told_again_when_it_happens_again(bench: StandbyBench) -> None:
    """In between the holder did its work by itself."""
    bench.publisher.is_down = True
    for _ in range(2):
        bench.hold(TENANT, owed_for_s=1)
        bench.hold("umbra")
        bench.standby.poll()
        assert bench.told() == [RescueWithheld(tenant_key=TENANT)]
        bench.hold(TENANT)
        bench.standby.poll()


def test_broker_is_asked_once_a_poll_however_many_leases_wait(bench: StandbyBench) -> None:
    """Each answer may take a second, and a thousand tenants may be owed at once."""
    bench.publisher.is_down = True
    bench.hold(TENANT, owed_for_s=1)
    bench.hold("umbra", owed_for_s=1)
    bench.standby.poll()
    assert bench.publisher.probes == 1


def test_row_that_stays_locked_is_told_once_though_other_bids_succeed(bench: StandbyBench) -> None:
    """The outage is over when no bid fails any more."""
    bench.leases.acts.lose_request("try_acquire", AWAY)
    bench.standby.poll()
    assert [type(event) for event in bench.told()] == [LeaseAcquired, DatabaseOutage]
    bench.standby.poll()
    assert [type(event) for event in bench.told()] == [LeaseAcquired, DatabaseRecovered]
