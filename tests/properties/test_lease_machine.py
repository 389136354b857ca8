"""What a process believes about one lease, beside a full record of the proofs."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from django_leased_cron.core.clock import BootTime
from django_leased_cron.core.lease_machine import (
    Denied,
    EndTerm,
    Event,
    Holding,
    Proved,
    Standby,
    StartTerm,
    State,
    TimePassed,
    Won,
)
from tests.unit.core.test_lease_machine import TTL_S, at


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
