"""What a term has claimed and knows to be unfinished."""

from __future__ import annotations

from django_leased_cron.core.outbox import ClaimedOccurrence, UnconfirmedClaim
from django_leased_cron.supervision.hand import Hand
from tests.unit.core.job_rows import claimed, message


def occurrence(occurrence_id: int, *, attempt: int = 1) -> ClaimedOccurrence:
    claim = UnconfirmedClaim(occurrence_id=occurrence_id, epoch=3, attempt=attempt)
    return claimed(message(), due_at_ms=0, claim=claim)


def test_claim_is_named_with_its_very_attempt() -> None:
    """A row with another one is not in hand, and is to be read back."""
    hand = Hand()
    hand.keep(occurrence(5), never_started=True)
    hand.keep(occurrence(5, attempt=2), never_started=True)
    assert hand.names == {(5, 2)}
    assert len(hand) == 1


def test_oldest_claims_are_adopted_first_and_no_more_than_asked_for() -> None:
    """With what is known of each."""
    hand = Hand()
    for occurrence_id in (9, 5, 7):
        hand.keep(occurrence(occurrence_id), never_started=occurrence_id == 5)
    adoptions = hand.find_adoptions(limit=2)
    assert [(adoption.claim.occurrence_id, adoption.never_started) for adoption in adoptions] == [(5, True), (7, False)]
    assert len(hand) == 3


def test_what_was_settled_is_dropped() -> None:
    """Whatever attempt it was settled under; what is not in hand does no harm."""
    hand = Hand()
    hand.keep(occurrence(5), never_started=True)
    hand.drop([UnconfirmedClaim(occurrence_id=occurrence_id, epoch=3, attempt=2) for occurrence_id in (5, 6)])
    assert not hand
