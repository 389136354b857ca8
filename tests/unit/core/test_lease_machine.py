"""What a process believes about one lease."""

from __future__ import annotations

import pytest

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
