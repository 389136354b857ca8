"""What is left to adopt later: what earlier terms claimed (A3), and what somebody else has locked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django_leased_cron.core.adoption import EpochSightings
from django_leased_cron.core.clock import BootTime, Clock, later
from django_leased_cron.core.outbox import Adoption, Outbox, UnconfirmedClaim
from django_leased_cron.supervision.confirmer import Confirmer

LOCKED_RETRY_S = 0.4
"""Shorter than RESCUE_AFTER: each try is a claim, and so the progress that keeps a rescue away."""


class Predecessors:
    """Earlier terms' unconfirmed claims, read once: none can be added while this term exists (I2).

    What this process has published itself, in an earlier term, is not adopted but confirmed (A2).
    An adoption that met another's lock comes back here too, whoever's claim it is, and is tried again now and then:
    neither the tenant's other work nor a rescue must wait for that lock.
    """

    def __init__(
        self,
        outbox: Outbox,
        sightings: EpochSightings,
        confirmer: Confirmer,
        *,
        epoch: int,
        limit: int,
        clock: Clock,
    ) -> None:
        self._outbox = outbox
        self._confirmer = confirmer
        self._sightings = sightings
        self._epoch = epoch
        self._limit = limit
        self._clock = clock
        self._claims: list[UnconfirmedClaim] | None = None
        self._locked: list[Adoption] = []
        self._locked_until = BootTime(0.0)

    def read(self) -> None:
        """Read them if that has not been done, or if what was read has run empty and there may be more."""
        if self._claims is None:
            found = self._outbox.read_predecessors(epoch=self._epoch, limit=self._limit)
            ours = {adoption.claim for adoption in self._locked} | self._confirmer.claims
            self._claims = [claim for claim in found if claim not in ours]

    def drop(self, claims: Iterable[UnconfirmedClaim]) -> None:
        """Forget those that a claim has settled one way or another."""
        gone = set(claims)
        known = len(self._locked) + len(self._claims or ())
        self._locked = [adoption for adoption in self._locked if adoption.claim not in gone]
        left = [claim for claim in self._claims or () if claim not in gone]
        if len(self._locked) + len(left) < known:
            self._claims = left or None

    def put_off(self, adoptions: Iterable[Adoption]) -> None:
        """Keep what was locked for another try."""
        adoptions = list(adoptions)
        if adoptions:
            known = {adoption.claim for adoption in self._locked}
            self._locked += [adoption for adoption in adoptions if adoption.claim not in known]
            self._locked_until = later(self._clock.boot_time(), LOCKED_RETRY_S)

    @property
    def locked_names(self) -> frozenset[tuple[int, int]]:
        """(occurrence id, attempt) of what was put off."""
        return frozenset((each.claim.occurrence_id, each.claim.attempt) for each in self._locked)

    def find_ready(self, at: BootTime) -> Sequence[Adoption]:
        """Return those that this process may adopt by now."""
        ready = list(self._locked) if at >= self._locked_until else []
        for claim in self._claims or ():
            adoptable_at = self._sightings.adoptable_at(claim.epoch)
            if adoptable_at is not None and adoptable_at <= at:
                ready.append(Adoption(claim=claim, never_started=False))
        return ready

    @property
    def adoptable_at(self) -> BootTime | None:
        """When the first of them may be adopted; ``None``: there are none."""
        times: list[BootTime | None] = [self._locked_until] if self._locked else []
        times += [self._sightings.adoptable_at(claim.epoch) for claim in self._claims or ()]
        return min((time for time in times if time is not None), default=None)

    @property
    def adoptable_in_ms(self) -> int | None:
        """The same as a duration from now, for the database: no clock of theirs is compared with one of ours."""
        adoptable_at = self.adoptable_at
        return None if adoptable_at is None else max(0, round((adoptable_at - self._clock.boot_time()) * 1000))
