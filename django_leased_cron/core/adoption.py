"""When a predecessor's claim may be adopted (rule A3).

A claim of epoch *e* entitles its claimer to publish for PUBLISH_TIMEOUT, and fencing puts that claim before the
moment at which the lease went above *e*. So the claim is stale once PUBLISH_TIMEOUT has passed, on this process's own
boot clock, since it first received a reply that shows the lease above *e*. No database clock and no skew between
machines enter the argument, and a term that ends meanwhile does not start the wait again: as bidder, standby, holder
or named successor, the process goes on remembering what it saw.
"""

from __future__ import annotations

from dataclasses import dataclass

from django_leased_cron.core.clock import BootTime, later


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sighting:
    epoch: int
    at: BootTime


class EpochSightings:
    """When this process first saw one lease at each of its epochs; lives as long as the process.

    Memory is bounded by the changes of holder within one PUBLISH_TIMEOUT: of the sightings older than that the newest
    says all that they say together.
    """

    def __init__(self, *, publish_timeout_s: float) -> None:
        self._publish_timeout_s = publish_timeout_s
        self._sightings: list[_Sighting] = []  # epochs and times both grow

    def note(self, epoch: int, *, at: BootTime) -> None:
        """Record that a reply received at ``at`` showed the lease at ``epoch``."""
        if self._sightings:
            newest = self._sightings[-1]
            if epoch <= newest.epoch:
                return
            at = max(at, newest.at)  # replies of two threads may be noted out of order: later is the safe direction
        elapsed = [sighting for sighting in self._sightings if self._adoptable_at(sighting) <= at]
        self._sightings = [*elapsed[-1:], *self._sightings[len(elapsed) :], _Sighting(epoch=epoch, at=at)]

    def adoptable_at(self, claim_epoch: int) -> BootTime | None:
        """Return from when a claim of that epoch may be adopted; ``None``: the lease was never seen above it.

        Once the moment has passed, a later one that has passed too may be returned in its place.
        """
        for sighting in self._sightings:
            if sighting.epoch > claim_epoch:
                return self._adoptable_at(sighting)
        return None

    def _adoptable_at(self, sighting: _Sighting) -> BootTime:
        return later(sighting.at, self._publish_timeout_s)
