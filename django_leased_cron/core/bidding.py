"""Which leases a standby may bid for.

The rule, for a lease that is not in our own hands::

    free                      nobody holds it
    expired                   by the database's clock
    unchanged                 seen unchanged for LEASE_TTL on our own boot clock: covers a database clock that
                              stepped back, by which nothing would expire for a long time
    rescue                    work has been owed for RESCUE_AFTER, and its holder has neither claimed nor confirmed
                              anything: on all of its leases in this database for RESCUE_AFTER, or on this one for
                              LEASE_TTL (one wedged tenant among many)

Rescue looks at undone work, not at heartbeats: a busy holder shows progress and is left alone however long its queue,
and an idle tenant owes nothing. Whether the bidder could do better, that is, whether its own broker connection
answers, is for the caller to know before it acts on a rescue.

Not promised: that a bid is right. The row may have moved since it was read, and the holder may only be slow. The
store acts on exactly the row that was judged, and fencing (I2) makes a takeover that was wrong merely impolite.
"""

from __future__ import annotations

from collections.abc import Mapping

from django_leased_cron.core.clock import BootTime
from django_leased_cron.core.lease import FREE, LeaseReading, LeaseRow, TakeoverReason
from django_leased_cron.core.timing import LeaseTiming

_Version = tuple[str, int, int, int]


class LeaseObserver:
    """What one process remembers of the readings of one database, to judge the next bid."""

    def __init__(self) -> None:
        self._unchanged_since: dict[str, tuple[_Version, BootTime]] = {}
        self._progressed_at_ms: dict[str, int] = {}

    def observe(self, reading: LeaseReading, *, at: BootTime) -> None:
        """Take in a reading received at ``at``; tenants that a whole one leaves out are forgotten."""
        if reading.progress is not None:
            self._note(reading, reading.progress, at=at)
            return
        since: dict[str, tuple[_Version, BootTime]] = {}
        progress: dict[str, int] = {}
        for tenant_key, row in reading.leases.items():
            version = _version(row)
            seen = self._unchanged_since.get(tenant_key)
            since[tenant_key] = seen if seen is not None and seen[0] == version else (version, at)
            progress[row.holder_id] = max(row.progressed_at_ms, progress.get(row.holder_id, 0))
        self._unchanged_since, self._progressed_at_ms = since, progress

    def _note(self, reading: LeaseReading, progress: Mapping[str, int], *, at: BootTime) -> None:
        """Take in a reading of some leases; of the others nothing new is known."""
        for tenant_key, row in reading.leases.items():
            version = _version(row)
            seen = self._unchanged_since.get(tenant_key)
            if seen is None or seen[0] != version:
                self._unchanged_since[tenant_key] = (version, at)
        self._progressed_at_ms = dict(progress)

    def unchanged_for_s(self, row: LeaseRow, *, at: BootTime) -> float:
        """Return for how long, up to ``at``, the row has been seen as it is; 0 for one not observed."""
        version, since = self._unchanged_since.get(row.tenant_key, (None, at))
        return at - since if version == _version(row) else 0.0

    def progressed_at_ms(self, row: LeaseRow) -> int:
        """Return the last progress of the row's holder on any of its leases in the latest reading."""
        return self._progressed_at_ms.get(row.holder_id, row.progressed_at_ms)


def find_takeover(
    row: LeaseRow,
    reading: LeaseReading,
    *,
    holder_id: str,
    held_epochs: Mapping[str, int],
    at: BootTime,
    timing: LeaseTiming,
    observer: LeaseObserver,
) -> TakeoverReason | None:
    """Return why this lease may be taken, or ``None``.

    Args:
        row: one lease of ``reading``.
        reading: what was read last; the observer has observed it.
        holder_id: the bidder's own.
        held_epochs: tenant key to epoch of the terms that the bidder believes in. A row that names the bidder but
            none of these (trust ran out, say) is judged like anybody's.
        at: boot time at which the reading was received.
    """
    if row.holder_id == FREE:
        return TakeoverReason.FREE
    if row.holder_id == holder_id and held_epochs.get(row.tenant_key) == row.epoch:
        return None
    if row.expires_at_ms <= reading.now_ms:
        return TakeoverReason.EXPIRED
    if observer.unchanged_for_s(row, at=at) >= timing.lease_ttl_s:
        return TakeoverReason.UNCHANGED
    if _needs_rescue(row, reading, timing=timing, observer=observer):
        return TakeoverReason.RESCUE
    return None


def find_soon_takeable(
    reading: LeaseReading, *, within_s: float, timing: LeaseTiming, observer: LeaseObserver
) -> Mapping[str, float]:
    """Return in how many seconds leases may be taken, if their holders do nothing more; only what is soon.

    What may be taken already is left out, as is a database clock that stepped back.
    """
    now_ms, end_ms = reading.now_ms, reading.now_ms + within_s * 1000
    rescue_after_ms, lease_ttl_ms = timing.rescue_after_ms, timing.lease_ttl_ms
    soon: dict[str, float] = {}
    for tenant_key, row in reading.leases.items():
        at_ms, owed_since_ms = row.expires_at_ms, row.owed_since_ms
        if rescue_after_ms is not None and owed_since_ms is not None and owed_since_ms + rescue_after_ms < end_ms:
            silent_at_ms = observer.progressed_at_ms(row) + rescue_after_ms
            wedged_at_ms = row.progressed_at_ms + lease_ttl_ms
            at_ms = min(at_ms, max(owed_since_ms + rescue_after_ms, min(silent_at_ms, wedged_at_ms)))
        if now_ms < at_ms < end_ms:
            soon[tenant_key] = (at_ms - now_ms) / 1000
    return soon


def _needs_rescue(row: LeaseRow, reading: LeaseReading, *, timing: LeaseTiming, observer: LeaseObserver) -> bool:
    rescue_after_ms = timing.rescue_after_ms
    if rescue_after_ms is None or row.owed_since_ms is None or reading.now_ms - row.owed_since_ms < rescue_after_ms:
        return False
    return (
        reading.now_ms - observer.progressed_at_ms(row) >= rescue_after_ms
        or reading.now_ms - row.progressed_at_ms >= timing.lease_ttl_ms
    )


def _version(row: LeaseRow) -> _Version:
    return row.holder_id, row.epoch, row.expires_at_ms, row.progressed_at_ms
