"""What a process believes about one lease."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from django_leased_cron.core.clock import BootTime
from django_leased_cron.core.lease_machine import (
    Action,
    Denied,
    EndReason,
    EndTerm,
    Event,
    Holding,
    Proved,
    Standby,
    StartTerm,
    State,
    TimePassed,
    Won,
    step,
)

TTL_S = 30
HOLDING = Holding(epoch=3, trusted_until=BootTime(130))


def at(state: State, now: float, event: Event) -> tuple[State, tuple[Action, ...]]:
    return step(state, event, at=BootTime(now), lease_ttl_s=TTL_S)


def ended(epoch: int, reason: EndReason) -> EndTerm:
    return EndTerm(epoch=epoch, reason=reason)


def test_trust_counts_from_before_the_lease_was_asked_for() -> None:
    """The reply took 5 seconds: those are gone."""
    state, actions = at(Standby(), 105, Won(epoch=3, asked_at=BootTime(100)))
    assert state == HOLDING
    assert actions == (StartTerm(epoch=3),)


def test_lease_won_by_a_reply_slower_than_the_lease_is_not_believed_in() -> None:
    """It has run out, by this process's own reckoning, before it was known."""
    assert at(Standby(), 130, Won(epoch=3, asked_at=BootTime(100))) == (Standby(), ())


def test_lease_won_anew_by_a_reply_slower_than_the_lease_only_ends_the_old_term() -> None:
    """Epoch 4 exists, so 3 is over; but there is no trust in 4 either."""
    state, actions = at(HOLDING, 125, Won(epoch=4, asked_at=BootTime(95)))
    assert state == Standby()
    assert actions == (ended(3, EndReason.DENIED),)


def test_slow_renewal_does_not_extend_trust() -> None:
    """Asked at 110, answered at 129: good until 140, not until 159."""
    state, actions = at(HOLDING, 129, Proved(epoch=3, asked_at=BootTime(110)))
    assert state == Holding(epoch=3, trusted_until=BootTime(140))
    assert actions == ()


def test_proof_that_was_overtaken_by_a_newer_one_takes_nothing_back() -> None:
    """Keeper and claims prove the same term on two threads."""
    assert at(HOLDING, 101, Proved(epoch=3, asked_at=BootTime(90))) == (HOLDING, ())


@pytest.mark.parametrize("event", [Proved(epoch=3, asked_at=BootTime(129)), Denied(epoch=3), TimePassed()])
def test_term_ends_by_itself_when_trust_runs_out(event: Event) -> None:
    """A proof that arrives at that very moment comes too late, and so does the database's own no."""
    assert at(HOLDING, 130, event) == (Standby(), (ended(3, EndReason.TRUST_ENDED),))


def test_lease_won_again_after_trust_ended_is_another_term() -> None:
    """The old one is told to end first."""
    state, actions = at(HOLDING, 131, Won(epoch=5, asked_at=BootTime(130.5)))
    assert state == Holding(epoch=5, trusted_until=BootTime(160.5))
    assert actions == (ended(3, EndReason.TRUST_ENDED), StartTerm(epoch=5))


def test_no_of_the_database_ends_the_term_at_once() -> None:
    """However long it would have been trusted."""
    assert at(HOLDING, 101, Denied(epoch=3)) == (Standby(), (ended(3, EndReason.DENIED),))


@pytest.mark.parametrize(
    "event",
    [
        Proved(epoch=2, asked_at=BootTime(120)),
        Proved(epoch=4, asked_at=BootTime(120)),
        Denied(epoch=2),
        Won(epoch=2, asked_at=BootTime(120)),
        Won(epoch=3, asked_at=BootTime(120)),
    ],
)
def test_late_message_of_another_term_touches_nothing(event: Event) -> None:
    """An epoch that is not this term's says nothing about it."""
    assert at(HOLDING, 121, event) == (HOLDING, ())


@pytest.mark.parametrize("event", [Proved(epoch=3, asked_at=BootTime(100)), Denied(epoch=3), TimePassed()])
def test_standby_is_left_only_by_winning(event: Event) -> None:
    """The late proof of a term that is over brings nothing back."""
    assert at(Standby(), 101, event) == (Standby(), ())


class LeaseMachine(RuleBasedStateMachine):
    """The machine beside a full record of the proofs of the present term, from which trust is worked out anew."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.state: State = Standby()
        self.running: int | None = None
        self.highest_epoch = 0
        self.proofs: list[float] = []
        """When each was asked for, of the term that runs; a renewal that failed is no event."""

    @rule(seconds=st.sampled_from([0.1, 1, 9, 29.9, 30, 31]))
    def time_passes_unnoticed(self, seconds: float) -> None:
        """Frozen, or nothing happens: nobody looks."""
        self.now += seconds

    @rule()
    def look(self) -> None:
        self.tell(TimePassed())

    @rule(took=st.floats(0, 40), ahead=st.integers(1, 3))
    def win(self, took: float, ahead: int) -> None:
        self.highest_epoch += ahead
        self.tell(Won(epoch=self.highest_epoch, asked_at=BootTime(self.now - took)))

    @rule(took=st.floats(0, 40), behind=st.integers(0, 2))
    def prove(self, took: float, behind: int) -> None:
        self.tell(Proved(epoch=self.highest_epoch - behind, asked_at=BootTime(self.now - took)))

    @rule(behind=st.integers(0, 2))
    def deny(self, behind: int) -> None:
        self.tell(Denied(epoch=self.highest_epoch - behind))

    def tell(self, event: Event) -> None:
        expected = self.expect(event)
        self.state, actions = at(self.state, self.now, event)
        for action in actions:
            match action:
                case StartTerm(epoch=epoch):
                    assert self.running is None, "a term begins only after the one before has ended"
                    self.running = epoch
                case EndTerm(epoch=epoch):
                    assert self.running == epoch, "what is ended is what runs"
                    self.running = None
        assert self.running == expected

    def expect(self, event: Event) -> int | None:
        """Return the epoch that is to run after the event, by the record."""
        running = self.running if self.now < self.trusted_until() else None
        match event:
            case Denied(epoch=epoch) if epoch == running:
                running = None
            case Proved(epoch=epoch, asked_at=asked_at) if epoch == running:
                self.proofs.append(asked_at)
            case Won(epoch=epoch, asked_at=asked_at):
                self.proofs = [asked_at]
                running = epoch if self.now < self.trusted_until() else None
        if running is None:
            self.proofs = []
        return running

    def trusted_until(self) -> float:
        return max((asked_at + TTL_S for asked_at in self.proofs), default=0.0)

    @invariant()
    def believes_in_what_runs_and_no_longer_than_proved(self) -> None:
        match self.state:
            case Standby():
                assert self.running is None
            case Holding(epoch=epoch, trusted_until=until):
                assert epoch == self.running
                assert until == self.trusted_until()


TestLeaseMachine = LeaseMachine.TestCase
TestLeaseMachine.settings = settings(max_examples=40, stateful_step_count=20)
