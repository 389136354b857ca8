"""Counting slots agrees with walking them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_leased_cron.core.slot_count import count_slots
from tests.unit.core.test_slot_count import CRONTABS, START_MS, ZONES, count_and_walk_year, crontab, walk


@given(
    fields=st.sampled_from(CRONTABS),
    zone=st.sampled_from(ZONES),
    first_min=st.integers(0, 400 * 1440),
    length_min=st.integers(0, 3 * 1440),
    second=st.integers(0, 59_999),
)
@settings(max_examples=60)
def test_count_agrees_with_walking(
    fields: tuple[str, ...], zone: str, first_min: int, length_min: int, second: int
) -> None:
    """On nights on which clocks are turned and a day is left out, too."""
    recurrence = crontab(fields, zone)
    first_ms = START_MS + first_min * 60_000 + second
    end_ms = first_ms + length_min * 60_000
    assert count_slots(recurrence, first_ms=first_ms, end_ms=end_ms) == walk(
        recurrence, first_ms=first_ms, end_ms=end_ms
    )


@pytest.mark.parametrize("fields", CRONTABS[2:])
@pytest.mark.parametrize("zone", ZONES)
def test_year_is_counted_as_it_is_walked(fields: tuple[str, ...], zone: str) -> None:
    """With both its turns of the clocks."""
    counted, walked = count_and_walk_year(fields, zone)
    assert counted == walked
