"""What earlier terms claimed and nobody confirmed, as one term takes it over (A3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django_leased_cron.core.adoption import EpochSightings
from django_leased_cron.core.clock import BootTime, Clock
from django_leased_cron.core.outbox import Adoption, Outbox, UnconfirmedClaim


class Predecessors:
    """Earlier terms' unconfirmed claims, read once: none can be added while this term exists (I2)."""

    def __init__(self, outbox: Outbox, sightings: EpochSightings, *, epoch: int, limit: int, clock: Clock) -> None:
        self._outbox = outbox
        self._sightings = sightings
        self._epoch = epoch
        self._limit = limit
        self._clock = clock
        self._claims: list[UnconfirmedClaim] | None = None

    def read(self) -> None:
        """Read them if that has not been done, or if what was read has run empty and there may be more."""
        if self._claims is None:
            self._claims = list(self._outbox.read_predecessors(epoch=self._epoch, limit=self._limit))

    def drop(self, claims: Iterable[UnconfirmedClaim]) -> None:
        """Forget those that a claim has settled one way or another."""
        if self._claims:
            gone = set(claims)
            self._claims = [claim for claim in self._claims if claim not in gone] or None

    def find_ready(self, at: BootTime) -> Sequence[Adoption]:
        """Return those that this process may adopt by now."""
        ready = []
        for claim in self._claims or ():
            adoptable_at = self._sightings.adoptable_at(claim.epoch)
            if adoptable_at is not None and adoptable_at <= at:
                ready.append(Adoption(claim=claim, never_started=False))
        return ready

    @property
    def adoptable_at(self) -> BootTime | None:
        """When the first of them may be adopted; ``None``: there are none."""
        times = [self._sightings.adoptable_at(claim.epoch) for claim in self._claims or ()]
        return min((time for time in times if time is not None), default=None)

    @property
    def adoptable_in_ms(self) -> int | None:
        """The same as a duration from now, for the database: no clock of theirs is compared with one of ours."""
        adoptable_at = self.adoptable_at
        return None if adoptable_at is None else max(0, round((adoptable_at - self._clock.boot_time()) * 1000))
