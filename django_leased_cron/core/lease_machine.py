"""What a process believes about one lease.

::

                 Won(epoch)                    Proved(epoch): trust moves on
    Standby ───────────────────▶ Holding ──┐
       ▲                            │   ▲──┘
       │  Denied(epoch)             │
       └────────────────────────────┘
          or trust ran out

Rules kept here:

* I1: trust counts from *before* the successful acquire or renewal was sent, on boot time, which goes on through a
  freeze or a suspend. A slow success therefore does not extend it, and one that arrives after trust ended changes
  nothing: the term is over, whoever holds the row.
* I6: the end of a term is the way back to standby, never the end of the process.
* I7: there is no event for a failed renewal. Not knowing stops nothing and forgets nothing.
* I10: an event names its epoch; one of an older term is no event of this one.

Not promised: that a process whose machine believes in a term may claim. The database decides that at every claim.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from django_leased_cron.core.clock import BootTime, later


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby:
    """No term: the process may bid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A term that this process believes in until ``trusted_until``."""

    epoch: int
    trusted_until: BootTime


State = Standby | Holding


@dataclass(frozen=True, slots=True, kw_only=True)
class Won:
    """The database said that an acquire, sent at ``asked_at``, took the lease."""

    epoch: int
    asked_at: BootTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved:
    """The database said that the term was still good after ``asked_at``: a renewal, a claim, a confirm."""

    epoch: int
    asked_at: BootTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """The database said that the lease is no longer this term's."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed:
    """Nothing happened; the clock is looked at."""


Event = Won | Proved | Denied | TimePassed


class EndReason(StrEnum):
    DENIED = "denied"
    TRUST_ENDED = "trust_ended"
    RELEASED = "released"
    HANDED_OVER = "handed_over"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTerm:
    """Build a fresh scheduler for this epoch: nothing of an earlier term's plan survives."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTerm:
    """Stop the scheduler of this epoch."""

    epoch: int
    reason: EndReason


Action = StartTerm | EndTerm


def step(state: State, event: Event, *, at: BootTime, lease_ttl_s: float) -> tuple[State, tuple[Action, ...]]:
    """Return the state after an event and what to do about it.

    Args:
        at: boot time now; trust is looked at before the event is, so that a reply that came too late finds no term.
        lease_ttl_s: how long a proof is good for.
    """
    match state:
        case Holding(epoch=epoch, trusted_until=until) if at >= until:
            after, actions = step(Standby(), event, at=at, lease_ttl_s=lease_ttl_s)
            return after, (EndTerm(epoch=epoch, reason=EndReason.TRUST_ENDED), *actions)
        case Standby():
            return _from_standby(state, event, at=at, lease_ttl_s=lease_ttl_s)
        case Holding():
            return _while_holding(state, event, at=at, lease_ttl_s=lease_ttl_s)
        case _:
            assert_never(state)


def _from_standby(
    state: Standby, event: Event, *, at: BootTime, lease_ttl_s: float
) -> tuple[State, tuple[Action, ...]]:
    match event:
        case Won(epoch=epoch, asked_at=asked_at):
            until = later(asked_at, lease_ttl_s)
            if at >= until:
                return state, ()  # the reply took longer than the lease: as good as lost
            return Holding(epoch=epoch, trusted_until=until), (StartTerm(epoch=epoch),)
        case Proved() | Denied() | TimePassed():
            return state, ()
        case _:
            assert_never(event)


def _while_holding(
    state: Holding, event: Event, *, at: BootTime, lease_ttl_s: float
) -> tuple[State, tuple[Action, ...]]:
    match event:
        case Proved(epoch=epoch, asked_at=asked_at) if epoch == state.epoch:
            until = max(state.trusted_until, later(asked_at, lease_ttl_s))
            return replace(state, trusted_until=until), ()
        case Denied(epoch=epoch) if epoch == state.epoch:
            return Standby(), (EndTerm(epoch=epoch, reason=EndReason.DENIED),)
        case Won(epoch=epoch) if epoch > state.epoch:
            # Taken anew by ourselves, before we had noticed that the old term was over.
            after, actions = _from_standby(Standby(), event, at=at, lease_ttl_s=lease_ttl_s)
            return after, (EndTerm(epoch=state.epoch, reason=EndReason.DENIED), *actions)
        case Won() | Proved() | Denied() | TimePassed():
            return state, ()
        case _:
            assert_never(event)
