"""What a term has claimed and knows to be unfinished."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django_leased_cron.core.outbox import Adoption, ClaimedOccurrence, UnconfirmedClaim


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unpublished:
    claim: UnconfirmedClaim
    never_started: bool


class Hand:
    """The claims of one term that its publisher did not get through (A2).

    Between two steps of the dispatcher no publication is under way, so whatever is here may be adopted: the publisher
    has not started it and no longer will, or it failed or timed out. What the broker accepted is with the confirmer.
    """

    def __init__(self) -> None:
        self._unpublished: dict[int, _Unpublished] = {}

    def __len__(self) -> int:
        return len(self._unpublished)

    @property
    def names(self) -> frozenset[tuple[int, int]]:
        """(occurrence id, attempt) of each."""
        return frozenset((item.claim.occurrence_id, item.claim.attempt) for item in self._unpublished.values())

    def keep(self, occurrence: ClaimedOccurrence, *, never_started: bool) -> None:
        claim = occurrence.claim
        self._unpublished[claim.occurrence_id] = _Unpublished(claim=claim, never_started=never_started)

    def drop(self, claims: Iterable[UnconfirmedClaim]) -> None:
        for claim in claims:
            self._unpublished.pop(claim.occurrence_id, None)

    def find_adoptions(self, *, limit: int) -> Sequence[Adoption]:
        items = sorted(self._unpublished.values(), key=lambda item: item.claim.occurrence_id)
        return [Adoption(claim=item.claim, never_started=item.never_started) for item in items[:limit]]
