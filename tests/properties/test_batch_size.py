"""A batch is never empty and never too large, whatever was measured."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from django_leased_cron.core.batch_size import BatchSizer


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 1000), st.just(0) | st.floats(1e-6, 100)), max_size=10), st.integers(1, 1000))
def test_batch_has_at_least_one_and_no_more_than_the_setting(batches: list[tuple[int, float]], largest: int) -> None:
    """Whatever was measured."""
    sizer = BatchSizer(batch_seconds=0.25, largest=largest)
    for published, seconds in batches:
        sizer.measure(published, seconds=seconds)
        assert 1 <= sizer.size <= largest
