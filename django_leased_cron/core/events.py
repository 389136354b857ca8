"""Frozen records of what happened; the loops emit them, ``instrumentation.py`` makes log lines of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django_leased_cron.core.lease import TakeoverReason
from django_leased_cron.core.lease_machine import EndReason


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseAcquired:
    tenant_key: str
    epoch: int
    reason: TakeoverReason
    previous_holder_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGiven:
    """A lease went to another process, so that each has its share."""

    tenant_key: str
    epoch: int
    """The successor's."""
    successor_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTakenUp:
    """A lease was found to be this process's: given by its holder, or won by a bid whose reply was lost."""

    tenant_key: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TermEnded:
    tenant_key: str
    epoch: int
    reason: EndReason


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverRequested:
    """Somebody asked the holder to hand over; it begins to."""

    tenant_key: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDispatched:
    """One batch went through claim, publish and confirm."""

    tenant_key: str
    epoch: int
    sent: int
    failed: int
    unsent: int
    """Still in hand: the broker did not take them."""
    adopted: int
    worst_lateness_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFlagged:
    """A job cannot be planned or sent as it stands."""

    tenant_key: str
    job_id: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EditsFoundSlowly:
    """Edits are not noted, and passes over all jobs take too long to be made at every poll."""

    tenant_key: str
    pause_s: float
    """Between two passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeScheduleSynchronised:
    """Jobs were brought in step with the schedule that the project's code holds."""

    tenant_key: str
    mode: str
    created: Sequence[str]
    updated: Sequence[str]
    disabled: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeEntryRefused:
    """An entry of the code's schedule cannot be a job; the others are."""

    tenant_key: str
    entry: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeJobsOrphaned:
    """Jobs that came out of the code are enabled, and the code no longer has them."""

    tenant_key: str
    jobs: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseOutage:
    """A database does not do what is asked; told once per outage.

    ``unreachable``: it is not there at all, so that whatever else is asked of it fails too.
    """

    alias: str
    doing: str
    detail: str
    unreachable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseRecovered:
    alias: str
    doing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOutage:
    """The broker does not take messages; told once per outage."""

    tenant_key: str
    detail: str
    in_hand: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRecovered:
    tenant_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RescueWithheld:
    """A lease could be rescued, but this process's own broker connection does not answer either."""

    tenant_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSuspended:
    """The database's clock moved against boot time: no claims until its readings agree again."""

    tenant_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopFailed:
    """An error of ours, not of a database or a broker; the loop goes on."""

    doing: str
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorReady:
    holder_id: str
    tenants: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorStopping:
    holder_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorStopped:
    holder_id: str
    released: int
    unreleased: int


Event = (
    LeaseAcquired
    | LeaseGiven
    | LeaseTakenUp
    | TermEnded
    | HandOverRequested
    | BatchDispatched
    | JobFlagged
    | EditsFoundSlowly
    | CodeScheduleSynchronised
    | CodeEntryRefused
    | CodeJobsOrphaned
    | DatabaseOutage
    | DatabaseRecovered
    | BrokerOutage
    | BrokerRecovered
    | RescueWithheld
    | ClockSuspended
    | LoopFailed
    | SupervisorReady
    | SupervisorStopping
    | SupervisorStopped
)
Emit = Callable[[Event], None]
