"""Jobs that come due with the sun, on every day of a year and everywhere: when Celery says so, each event once."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_leased_cron.core.solar import EVENTS
from tests.unit.test_solar import HOUR, NEW_YEAR, NEW_YORK, TROMSO, find_from, find_in_celery


@settings(max_examples=100, deadline=None)
@given(
    event=st.sampled_from(EVENTS),
    latitude=st.decimals(-90, 90, places=6),
    longitude=st.decimals(-180, 180, places=6),
    after_ms=st.integers(0, 4_000_000_000_000),
    waited=st.floats(0, 1, exclude_max=True),
)
def test_each_event_is_found_once(
    event: str, latitude: Decimal, longitude: Decimal, after_ms: int, waited: float
) -> None:
    """The next one after an event is hours away, and the same, to a fifth of a second, from any moment between."""
    place = {"latitude": latitude, "longitude": longitude}
    found = find_from(after_ms, event, count=3, **place)
    assert all(later - earlier > 12 * HOUR for earlier, later in pairwise(found))
    for earlier, later in pairwise([after_ms, *found]):
        assert later > earlier
        [due] = find_from(earlier + int((later - earlier - 1200) * waited), event, count=1, **place)
        assert due == pytest.approx(later, abs=200)


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("place", [NEW_YORK, TROMSO], ids=["New York", "Tromsø"])
def test_celery_finds_the_same_events(event: str, place: dict[str, Decimal]) -> None:
    """A year of them, polar night and white nights included."""
    for due, later in pairwise(find_from(NEW_YEAR, event, count=366, **place)):
        assert find_in_celery(due, event, **place) == pytest.approx(later, abs=200)
