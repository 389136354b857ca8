"""The lease as values, and the port to the row that decides.

A lease row gives one holder the right to schedule one tenant until it expires by the database's clock. Everything a
store does is one conditional statement, decided by the database; what it answers is a value:

* acquire: :class:`Acquired` or :class:`HeldByOther`;
* renew: which of the terms named were renewed, lost, or busy (locked by somebody: not knowing is not losing, I7);
* release: whether the row was still that term's;
* request a hand-over: whether that term goes on;
* hand over: whether the row was still that term's, and the successor that it names was still there.

All of them name the exact row version or term (I10): a late message of an old term changes nothing.

Not promised: that there is one process that *believes* it holds. A frozen holder believes what it believed; the guard
of the claim (I2) is what makes that harmless.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

FREE = ""
"""The holder id of a lease that nobody holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """One lease as a reading showed it."""

    tenant_key: str
    holder_id: str
    epoch: int
    acquired_at_ms: int
    expires_at_ms: int
    progressed_at_ms: int
    owed_since_ms: int | None
    hand_over_requested_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseReading:
    """The leases of one database at one moment of its clock."""

    now_ms: int
    leases: Mapping[str, LeaseRow]
    progress: Mapping[str, int] | None = None
    """Holder to its last progress on any lease; ``None``: the reading has all leases, and so shows it itself."""


class TakeoverReason(StrEnum):
    """Why a lease may be taken. Each is only politeness: fencing makes a wrong one harmless."""

    FREE = "free"
    EXPIRED = "expired"
    UNCHANGED = "unchanged"
    """Unchanged for LEASE_TTL on the observer's own clock: covers a database clock that stepped back."""
    RESCUE = "rescue"
    """Its holder leaves owed work undone, expired or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid:
    """A lease to be taken as it was read, and why."""

    row: LeaseRow
    reason: TakeoverReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquired:
    tenant_key: str
    epoch: int
    now_ms: int
    """The database's clock in the reply: a reading taken before the acquire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldByOther:
    """The row was no longer as seen: somebody renewed, claimed or took it first."""

    tenant_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """What became of the terms that a renewal named."""

    renewed: frozenset[str]
    lost: frozenset[str]
    busy: frozenset[str]
    """Locked by somebody else, usually by their own claim, which renews them too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReport:
    """What a live supervisor says of itself."""

    holder_id: str
    host: str
    pid: int
    version: str
    draining: bool
    tenants: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenProcess:
    """A supervisor as its row shows it."""

    holder_id: str
    last_seen_at_ms: int
    draining: bool
    tenants: frozenset[str]
    """Those that it was started for; empty: all."""
    refused: frozenset[str] = frozenset()
    """Those that it was given and did not take up; its row does not say so."""

    def takes(self, tenant_key: str) -> bool:
        """Return whether it was started for this tenant, and has not refused it."""
        return tenant_key not in self.refused and (not self.tenants or tenant_key in self.tenants)


class LeaseStore(Protocol):
    """The leases of one database. Raises the errors of ``StoreError``; never turns one into an answer."""

    alias: str

    def read(self, tenant_keys: Sequence[str]) -> LeaseReading:
        """Read the leases of these tenants in one query, creating (free, epoch 0) rows that are missing."""
        ...

    def read_notable(self, *, within_ms: int) -> LeaseReading:
        """Read what there is a reason to look at: leases that may be taken, or were lately, or are to be handed over.

        Among them those that may be taken within so many milliseconds, if their holders do nothing more.
        One query whose answer is small however many leases there are, while nothing happens; other processes' tenants
        are among them. What has merely not changed for long is not: that takes a whole reading now and then.
        """
        ...

    def try_acquire(self, seen: LeaseRow, *, holder_id: str, reason: TakeoverReason) -> Acquired | HeldByOther:
        """Take a lease whose row is still exactly ``seen``, if ``reason`` still holds by the database's clock.

        Raises:
            CommitOutcomeUnknownError: it may be ours; the next reading shows it (``holder_id``, ``seen.epoch + 1``).
        """
        ...

    def try_acquire_many(self, bids: Sequence[Bid], *, holder_id: str) -> Sequence[Acquired]:
        """Do the same for many leases in one statement that waits for nobody's row; return those that were taken.

        Raises:
            CommitOutcomeUnknownError: any of them may be ours; the next reading shows it.
        """
        ...

    def renew(self, *, holder_id: str, epochs: Mapping[str, int]) -> Renewal:
        """Renew all terms of one holder (tenant key to epoch) in one statement that waits for nobody's row."""
        ...

    def release(self, *, tenant_key: str, holder_id: str, epoch: int) -> bool:
        """Free the lease if it is still this term's, and tell the standbys where the database can."""
        ...

    def request_hand_over(self, seen: LeaseRow) -> bool:
        """Ask the holder of this very term to hand over, at once where the database can tell it.

        Returns:
            whether there was somebody to ask: the term goes on, and its lease has not expired.
        """
        ...

    def hand_over(self, *, tenant_key: str, holder_id: str, epoch: int, successor_id: str) -> bool:
        """Make a live process the holder if the lease is still this term's, and tell it where the database can.

        Raises:
            CommitOutcomeUnknownError: it may be the successor's; the next claim's guard knows.
        """
        ...

    def read_processes(self) -> Sequence[SeenProcess]:
        """Read the rows of all processes, dead ones included."""
        ...

    def report_process(self, report: ProcessReport) -> None:
        """Insert or update the process's row with the database's time."""
        ...

    def forget_process(self, *, holder_id: str) -> None:
        """Delete the process's row, and those of processes long gone."""
        ...

    def close(self) -> None:
        """Give up connections; never raises."""
        ...


class WakeUps(Protocol):
    """What ends a wait before its time. ``wait`` and ``close`` are for one thread, ``wake`` for any."""

    def wait(self, timeout_s: float) -> bool:
        """Wait; return whether there is reason to look before the time is up. Raises nothing for a lost database."""
        ...

    def wake(self) -> None:
        """End the wait going on, or else the next one, at once."""
        ...

    def close(self) -> None:
        """Give up what it holds; never raises."""
        ...
