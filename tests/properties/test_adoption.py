"""From when a claim may be adopted (A3), beside a full record of the replies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from django_leased_cron.core.adoption import EpochSightings
from django_leased_cron.core.clock import BootTime

TIMEOUT_S = 5


@given(
    steps=st.lists(st.tuples(st.integers(0, 8), st.floats(0, 3)), max_size=30),
    claim_epoch=st.integers(0, 12),
)
def test_sightings_say_what_a_full_record_of_the_replies_says(steps: list[tuple[int, float]], claim_epoch: int) -> None:
    """Exactly while the claim has to wait; once it has not, only that it has not."""
    sightings, record, at = EpochSightings(publish_timeout_s=TIMEOUT_S), list[tuple[int, float]](), 0.0
    for epoch, pause in steps:
        at += pause
        sightings.note(epoch, at=BootTime(at))
        record.append((epoch, at))
        expected = min((seen_at for seen, seen_at in record if seen > claim_epoch), default=None)
        adoptable_at = sightings.adoptable_at(claim_epoch)
        if expected is None:
            assert adoptable_at is None
        elif expected + TIMEOUT_S > at:
            assert adoptable_at == expected + TIMEOUT_S
        else:
            assert adoptable_at is not None
            assert expected + TIMEOUT_S <= adoptable_at <= at
