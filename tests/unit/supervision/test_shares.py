"""Two processes and four tenants: what one has too many of goes to the other, by name."""

from __future__ import annotations

from typing import Any

import pytest

from django_leased_cron.core.events import LeaseGiven, LeaseTakenUp, TermEnded
from django_leased_cron.core.lease import ProcessReport, TakeoverReason
from django_leased_cron.core.lease_machine import EndReason
from django_leased_cron.core.publication import NotStarted
from django_leased_cron.exceptions import CommitOutcomeUnknownError, DatabaseUnavailableError
from django_leased_cron.lease_store.poll_timer import PollTimer
from django_leased_cron.supervision.seats import Seats
from django_leased_cron.supervision.standby import StandbyPoll
from django_leased_cron.testing import EventLog
from tests.unit.supervision.process import TIMING, Process, build_shares

TENANTS = ("acme", "echo", "initech", "umbra")
AWAY = DatabaseUnavailableError("default", "connection refused")
UNKNOWN = CommitOutcomeUnknownError("default", "the reply to COMMIT never came")


class Member:
    """One process: a seat for each tenant, stepped as the pool would."""

    def __init__(self, holder_id: str, *, beside: Member | None = None) -> None:
        self.holder_id = holder_id
        self.processes: dict[str, Process] = {}
        for tenant_key in TENANTS:
            near = beside.processes[tenant_key] if beside else next(iter(self.processes.values()), None)
            self.processes[tenant_key] = Process(holder_id=holder_id, tenant_key=tenant_key, beside=near)
        first = self.processes["acme"]
        self.leases, self.clock = first.leases, first.clock
        self.events = EventLog()
        self.standby = StandbyPoll(
            self.leases,
            PollTimer(),
            Seats(process.seat for process in self.processes.values()),
            holder_id=holder_id,
            shares=build_shares(self.leases, holder_id=holder_id, tenants=len(TENANTS), emit=self.events.append),
            timing=TIMING,
            is_broker_answering=lambda: True,
            clock=self.clock,
            emit=self.events.append,
        )
        self.report()

    def report(self, *, draining: bool = False) -> None:
        report = ProcessReport(holder_id=self.holder_id, host="h", pid=1, version="1", draining=draining, tenants=[])
        self.leases.report_process(report)

    def work(self) -> None:
        """Step each seat until it is at rest."""
        for process in self.processes.values():
            for _ in range(20):
                again_at = process.seat.step(process.publisher)
                if again_at is None or again_at > self.clock.boot_time():
                    break
            else:
                raise AssertionError("a seat does not come to rest")

    def turn(self) -> None:
        """Look at the leases, and do what there is to do."""
        self.standby.poll()
        self.clock.advance(0.01)
        self.work()

    @property
    def held(self) -> set[str]:
        return {key for key, process in self.processes.items() if process.seat.term is not None}

    def endings(self) -> list[EndReason]:
        return [event.reason for process in self.processes.values() for event in process.events.of(TermEnded)]


@pytest.fixture
def me() -> Member:
    """Return a process that holds all four tenants."""
    me = Member("me")
    me.turn()
    assert me.held == set(TENANTS)
    return me


@pytest.fixture
def other(me: Member) -> Member:
    """Return one that has just started."""
    return Member("other", beside=me)


def holders(member: Member) -> list[str]:
    return sorted(row.holder_id for row in member.leases.rows.values())


def test_shares_level_out_when_a_process_joins(me: Member, other: Member) -> None:
    """Two of four go; the successor begins its terms at its next look, and nobody bids."""
    me.turn()
    assert holders(me) == ["me", "me", "other", "other"]
    assert len(me.held) == 2
    assert me.endings() == [EndReason.HANDED_OVER] * 2
    assert {event.successor_id for event in me.events.of(LeaseGiven)} == {"other"}
    other.turn()
    assert other.held == set(TENANTS) - me.held
    assert [event.epoch for event in other.events.of(LeaseTakenUp)] == [2, 2]
    for member in (me, other, me, other):
        member.turn()
    assert len(me.held) == len(other.held) == 2
    assert len(me.events.of(LeaseGiven)) == 2
    assert not other.events.of(LeaseGiven)


def test_trust_in_a_lease_that_was_given_counts_from_before_it_was_taken_up(me: Member, other: Member) -> None:
    """The renewal that proves it took 29 seconds: one is left."""
    me.turn()
    other.leases.acts.seconds["renew"] = 29
    other.standby.poll()
    assert len(other.held) == 2
    me.clock.advance(1)
    other.work()
    assert not other.held


def test_successor_waits_for_what_earlier_terms_claimed_from_when_it_saw_the_lease_above(
    me: Member, other: Member
) -> None:
    """A3: it was nobody until it looked, whenever the lease was given."""
    me.turn()
    me.clock.advance(2)
    other.standby.poll()
    for tenant_key in other.held:
        sightings = other.processes[tenant_key].seat.sightings
        assert sightings.adoptable_at(1) == me.clock.boot_time() + TIMING.publish_timeout_s


def test_everything_is_published_and_confirmed_before_a_lease_is_given(me: Member, other: Member) -> None:
    """I9: what was due went out, and nothing is left in hand for the successor to adopt."""
    for process in me.processes.values():
        process.plan(7)
        process.outbox.acts.lose_request("confirm", AWAY)
    me.clock.advance(0.6)
    me.work()
    assert all(process.outbox.states() == ["claimed"] for process in me.processes.values())
    me.turn()
    assert len(me.held) == 2
    assert all(process.outbox.states() == ["sent"] for process in me.processes.values())


def test_lease_is_kept_while_something_is_unpublished(me: Member, other: Member) -> None:
    """A successor would have to wait for PUBLISH_TIMEOUT before it may adopt it."""
    for process in me.processes.values():
        process.plan(7)
        process.publisher.answer(NotStarted)
    me.clock.advance(0.6)
    me.work()
    me.turn()
    assert me.held == set(TENANTS)
    me.clock.advance(1)
    me.turn()
    me.turn()
    assert len(me.held) == 2


def test_unknown_outcome_of_a_hand_over_is_settled_by_the_next_guard(me: Member, other: Member) -> None:
    """It was given after all."""
    me.leases.acts.lose_reply("hand_over", UNKNOWN, times=2)
    me.turn()
    assert holders(me) == ["me", "me", "other", "other"]
    me.clock.advance(0.3)
    me.work()
    me.turn()
    other.turn()
    assert len(me.held) == len(other.held) == 2


def test_hand_over_is_tried_again_when_the_database_is_back(me: Member, other: Member) -> None:
    """The offer lapsed, and the next look makes it again."""
    me.leases.acts.lose_request("hand_over", AWAY, times=2)
    me.turn()
    assert me.held == set(TENANTS)
    me.turn()
    assert len(me.held) == 2


def test_work_does_not_wait_for_a_hand_over_that_fails(me: Member, other: Member) -> None:
    """Not knowing is not losing: what comes due goes out."""
    me.leases.acts.lose_request("hand_over", AWAY, times=9)
    for process in me.processes.values():
        process.plan(7)
    me.clock.advance(0.6)
    me.turn()
    me.clock.advance(0.3)
    me.work()
    assert me.held == set(TENANTS)
    assert all(process.outbox.states() == ["sent"] for process in me.processes.values())


def test_offer_waits_for_what_is_claimed_ahead(me: Member, other: Member) -> None:
    """A batch that the publisher has not been given yet goes out first; then the lease goes."""
    for process in me.processes.values():
        process.plan(*range(120))
    me.clock.advance(0.6)
    for process in me.processes.values():
        while "claimed" not in process.outbox.states():
            process.seat.step(process.publisher)
        assert len(process.sent()) < len(process.outbox.states())
    me.turn()
    assert len(me.held) == 2
    assert all(set(process.outbox.states()) == {"sent"} for process in me.processes.values())


def test_offer_of_an_earlier_term_is_none(me: Member) -> None:
    """The lease was taken and won again meanwhile."""
    seat = me.processes["acme"].seat
    seat.offer(0, lambda term: pytest.fail(f"{term} is given away"))
    me.work()
    assert me.held == set(TENANTS)


def test_term_that_is_being_given_away_ends_as_handed_over(
    me: Member, other: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the standby reads before its seat has heard."""
    hand_over = me.leases.hand_over

    def hand_over_and_look(**names: Any) -> bool:
        given = hand_over(**names)
        me.standby.poll()
        return given

    monkeypatch.setattr(me.leases, "hand_over", hand_over_and_look)
    me.turn()
    assert me.endings() == [EndReason.HANDED_OVER] * 2


def test_term_ends_once(me: Member, other: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keeper hears of it before the reply to the hand-over is there."""
    hand_over = me.leases.hand_over

    def hand_over_and_renew(*, tenant_key: str, epoch: int, **names: Any) -> bool:
        given = hand_over(tenant_key=tenant_key, epoch=epoch, **names)
        me.processes[tenant_key].seat.denied(epoch)
        return given

    monkeypatch.setattr(me.leases, "hand_over", hand_over_and_renew)
    me.turn()
    assert me.endings() == [EndReason.DENIED] * 2
    assert len(me.held) == 2


def test_request_to_hand_over_comes_before_an_offer(me: Member, other: Member) -> None:
    """The lease is released, as somebody asked, and its successor is whoever bids."""
    me.standby.poll()
    for row in list(me.leases.rows.values()):
        me.leases.request_hand_over(row)
    me.turn()
    assert me.endings() == [EndReason.RELEASED] * 4
    assert not me.events.of(LeaseGiven)
    other.turn()
    assert other.held == set(TENANTS)


def test_lease_given_is_taken_up_though_it_was_handed_over_a_moment_ago(me: Member, other: Member) -> None:
    """A process that leaves what is free to others takes what one of them gives to it by name."""
    for row in list(me.leases.rows.values()):
        me.leases.request_hand_over(row)
    me.turn()
    other.turn()
    assert other.held == set(TENANTS)
    other.turn()
    me.standby.poll()
    assert len(me.held) == 2


def test_tenant_that_is_leaving_is_not_given_away(me: Member, other: Member) -> None:
    """Its seat gives the lease back itself."""
    for key in ("acme", "echo", "initech"):
        me.processes[key].seat.drain()
    me.turn()
    assert not me.events.of(LeaseGiven)
    assert not me.standby._shares.is_giving


def test_lease_given_to_a_seat_that_is_leaving_is_given_back(me: Member, other: Member) -> None:
    """And is not given to that process again, which may go on listing others."""
    for process in other.processes.values():
        process.seat.drain()
    me.turn()
    given = [event.tenant_key for event in me.events.of(LeaseGiven)]
    other.turn()
    assert not other.held
    assert holders(me) == ["", "", "me", "me"]
    me.turn()
    assert me.held == set(TENANTS)
    other.report()
    me.turn()
    assert set(given).isdisjoint(event.tenant_key for event in me.events.of(LeaseGiven)[2:])
    assert len(me.events.of(LeaseGiven)) == 4


def test_nothing_is_given_to_a_successor_that_goes_down_meanwhile(me: Member, other: Member) -> None:
    """It said so after this process had looked."""
    me.standby.poll()
    other.report(draining=True)
    me.work()
    assert me.held == set(TENANTS)
    me.turn()
    assert not me.events.of(LeaseGiven)


def test_what_is_given_to_a_process_on_its_way_down_is_given_back(me: Member, other: Member) -> None:
    """It does not look at leases any more."""
    me.turn()
    other.standby.decline()
    assert holders(me) == ["", "", "me", "me"]
    me.turn()
    assert me.held == set(TENANTS)


def test_dead_successor_is_rescued_from_and_given_no_more(me: Member, other: Member) -> None:
    """The hand-over counts as its progress; what is owed is rescued RESCUE_AFTER later."""
    me.turn()
    given = set(TENANTS) - me.held
    for tenant_key in given:
        me.leases.change(tenant_key, owed_since_ms=me.leases.now_ms)
    me.clock.advance(0.9)
    me.turn()
    assert len(me.held) == 2
    me.clock.advance(0.2)
    me.events.clear()
    me.turn()
    assert me.held == set(TENANTS)
    assert [getattr(event, "reason", None) for event in me.events] == [TakeoverReason.RESCUE] * 2
    for _ in range(5):
        me.turn()
    assert me.held == set(TENANTS)
    other.report()
    me.turn()
    me.turn()
    assert len(me.held) == 2


def test_lease_won_by_a_bid_whose_reply_was_lost_is_taken_up() -> None:
    """The next reading shows whose it is, at an epoch that this process has not had."""
    me = Member("me")
    me.leases.acts.lose_reply("try_acquire", UNKNOWN)
    me.turn()
    assert len(me.held) == 3
    me.turn()
    assert me.held == set(TENANTS)
    assert len(me.events.of(LeaseTakenUp)) == 1


def test_term_that_ended_is_not_taken_up_again(me: Member) -> None:
    """The row still names this process, and its claims of that epoch are a predecessor's by now."""
    me.clock.advance(30)
    me.work()
    assert not me.held
    for tenant_key in TENANTS:
        me.leases.change(tenant_key, expires_at_ms=me.leases.now_ms + 1000)
    me.turn()
    assert not me.held


def test_first_choice_looks_again_when_a_lease_may_be_taken(me: Member, other: Member) -> None:
    """At that moment, and not at its next poll."""
    me.turn()
    other.turn()
    other.report(draining=True)
    me.turn()
    for tenant_key in other.held:
        me.leases.change(tenant_key, owed_since_ms=me.leases.now_ms)
    me.clock.advance(0.7)
    wait_s = me.standby.poll()
    assert wait_s < TIMING.poll_interval_s
    me.clock.advance(wait_s)
    me.standby.poll()
    assert me.held == set(TENANTS)
