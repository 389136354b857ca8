"""What a term has claimed and knows to be unfinished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django_leased_cron.core.outbox import Adoption, ClaimedOccurrence, UnconfirmedClaim

_BREAKS_OF_A_SUSPECT = 3
_BREAKS_TO_GIVE_UP = 5


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
        self._breaks: Counter[int] = Counter()
        self._accepted = 0
        self._accepted_at_first_break: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._unpublished)

    @property
    def names(self) -> frozenset[tuple[int, int]]:
        """(occurrence id, attempt) of each."""
        return frozenset((item.claim.occurrence_id, item.claim.attempt) for item in self._unpublished.values())

    def keep(self, occurrence: ClaimedOccurrence, *, never_started: bool) -> None:
        claim = occurrence.claim
        self._unpublished[claim.occurrence_id] = _Unpublished(claim=claim, never_started=never_started)

    def keep_all(self, occurrences: Iterable[ClaimedOccurrence]) -> None:
        """Keep what was claimed just now: nothing of it has been given to the publisher."""
        for occurrence in occurrences:
            self.keep(occurrence, never_started=True)

    def drop(self, claims: Iterable[UnconfirmedClaim]) -> None:
        for claim in claims:
            self._unpublished.pop(claim.occurrence_id, None)

    def find_adoptions(self, *, limit: int) -> Sequence[Adoption]:
        """Return what to adopt: all but the suspects, which go alone, one at a time, when there is nothing else."""
        items = sorted(self._unpublished.values(), key=lambda item: item.claim.occurrence_id)
        innocent = [item for item in items if not self._is_suspect(item.claim.occurrence_id)]
        return [
            Adoption(claim=item.claim, never_started=item.never_started) for item in (innocent or items[:1])[:limit]
        ]

    # Messages on which the broker ends the connection: each would be the first to be tried again, for ever

    @property
    def holds_only_suspects(self) -> bool:
        """Whether the tenant's other work need not wait for what is here."""
        return bool(self._unpublished) and all(map(self._is_suspect, self._unpublished))

    def note_accepted(self, occurrence_id: int) -> None:
        self._accepted += 1
        self._breaks.pop(occurrence_id, None)
        self._accepted_at_first_break.pop(occurrence_id, None)

    def note_break(self, occurrence_id: int) -> bool:
        """Take note that the connection broke under this message; return whether it is to be given up.

        That takes several breaks, before each of which the broker had answered, and others that were accepted since
        the first: a broker that takes nothing from anybody proves nothing against one message.
        """
        self._breaks[occurrence_id] += 1
        since = self._accepted_at_first_break.setdefault(occurrence_id, self._accepted)
        return self._breaks[occurrence_id] >= _BREAKS_TO_GIVE_UP and self._accepted > since

    def _is_suspect(self, occurrence_id: int) -> bool:
        return self._breaks[occurrence_id] >= _BREAKS_OF_A_SUSPECT
