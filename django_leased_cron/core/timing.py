"""How long things may take, in what order, and the margins that follow.

The rules::

    |- heartbeat -|- heartbeat -|- heartbeat -|
    |--------------- lease_ttl ---------------|
    |- poll -|- poll -|
    |- rescue_after --|
    |- may start -|- may only finish -|
    |-------- publish_timeout --------|

* ``heartbeat_s <= lease_ttl_s / 3``: two renewals in a row may fail without the term ending.
* ``poll_interval_s <= rescue_after_s``: lateness after a failure is their sum; a longer poll would be most of it.
* ``publish_timeout_s <= lease_ttl_s``: a claim entitles to publish for no longer than a lease is held unrenewed.

They are checked where the settings are read; here they are relied upon.

Not promised: that any of these bounds holds for a process that is frozen. It wakes up with its margins spent, and the
guard of the claim (I2), not a duration, keeps it from doing harm.
"""

from __future__ import annotations

from dataclasses import dataclass

_GRACE_S = 1.0
_BATCH_SECONDS_WITHOUT_RESCUE = 0.25
_LONGEST_BACK_OFF_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTiming:
    """The durations of the protocol: seconds on boot time, milliseconds (``*_ms``) where the database compares.

    Attributes:
        lease_ttl_s: a lease not renewed for this long may be taken by anyone.
        heartbeat_s: how often a holder renews.
        poll_interval_s: how often a standby looks.
        rescue_after_s: owed work without progress for this long may be taken over; ``None`` turns rescue off.
        publish_timeout_s: how long a claim entitles its claimer to publish.
    """

    lease_ttl_s: float
    heartbeat_s: float
    poll_interval_s: float
    rescue_after_s: float | None
    publish_timeout_s: float

    @property
    def lease_ttl_ms(self) -> int:
        return _milliseconds(self.lease_ttl_s)

    @property
    def rescue_after_ms(self) -> int | None:
        return None if self.rescue_after_s is None else _milliseconds(self.rescue_after_s)

    @property
    def missed_after_ms(self) -> int:
        """Lateness, when claimed, above which an occurrence was missed and catch-up decides about it.

        The longest failover there is, plus a second: whatever a failover delays is always dispatched (I3).
        """
        return _milliseconds(self.lease_ttl_s + self.poll_interval_s + _GRACE_S)

    @property
    def start_margin_s(self) -> float:
        """The last part of ``publish_timeout_s``, in which no publication starts (P1)."""
        return self.publish_timeout_s / 2

    @property
    def loop_stalled_after_s(self) -> float:
        """A dispatch loop that has not turned for this long no longer has its leases renewed."""
        return self.lease_ttl_s / 2

    @property
    def longest_back_off_s(self) -> float:
        """The longest pause between two tries of a holder whose broker is away: it must be back before a rescue is."""
        return _LONGEST_BACK_OFF_S if self.rescue_after_s is None else min(_LONGEST_BACK_OFF_S, self.rescue_after_s / 2)

    @property
    def rescue_rest_s(self) -> float:
        """How long, after its broker was seen to be away, a standby leaves rescues to the holder."""
        return self.poll_interval_s + (self.rescue_after_s or 0.0)

    @property
    def hand_over_rest_s(self) -> float:
        """How long a process that was asked to hand over leaves the lease to the others."""
        return 2 * self.poll_interval_s

    @property
    def batch_seconds(self) -> float:
        """The time that publishing one batch should take at most, so that a busy holder shows progress in time."""
        return _BATCH_SECONDS_WITHOUT_RESCUE if self.rescue_after_s is None else self.rescue_after_s / 4


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
