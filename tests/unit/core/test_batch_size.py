"""How many occurrences are claimed at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_leased_cron.core.batch_size import FIRST_BATCH, BatchSizer


def sizes(sizer: BatchSizer, *, rate: float, batches: int) -> Iterator[int]:
    """Publish whole batches at a steady rate; yield the size that follows each."""
    for _ in range(batches):
        sizer.measure(sizer.size, seconds=sizer.size / rate)
        yield sizer.size


def test_first_batch_is_small() -> None:
    """Nothing is known of the broker, and a batch is what a crash can repeat."""
    assert BatchSizer(batch_seconds=0.25, largest=500).size == FIRST_BATCH
    assert BatchSizer(batch_seconds=0.25, largest=20).size == 20


def test_batch_takes_as_long_as_it_should_at_the_rate_measured() -> None:
    """1000 a second, a quarter of a second."""
    sizer = BatchSizer(batch_seconds=0.25, largest=500)
    assert [*sizes(sizer, rate=1000, batches=2)] == [250, 250]


def test_batch_is_never_larger_than_the_setting() -> None:
    """However quick the broker."""
    sizer = BatchSizer(batch_seconds=0.25, largest=500)
    assert [*sizes(sizer, rate=10_000, batches=1)] == [500]


def test_batch_is_never_empty() -> None:
    """However slow the broker."""
    sizer = BatchSizer(batch_seconds=0.25, largest=500)
    assert [*sizes(sizer, rate=1, batches=1)] == [1]


def test_change_of_the_rate_is_believed_by_half() -> None:
    """One batch that was slow or quick by chance does not swing the next one all the way."""
    sizer = BatchSizer(batch_seconds=0.25, largest=500)
    sizer.measure(200, seconds=0.2)
    sizer.measure(100, seconds=0.2)
    assert sizer.size == 187  # a quarter of a second at 750


@pytest.mark.parametrize(("published", "seconds"), [(24, 10), (0, 0.1), (50, 0)])
def test_batch_that_says_little_of_the_rate_is_left_out(published: int, seconds: float) -> None:
    """A few messages are mostly round trips; no time at all is a clock's grain."""
    sizer = BatchSizer(batch_seconds=0.25, largest=500)
    sizer.measure(published, seconds=seconds)
    assert sizer.size == FIRST_BATCH


def test_slow_batch_does_not_keep_the_following_ones_small_for_ever() -> None:
    """A hiccup of ten seconds, then a thousand a second again: soon a batch is what it was."""
    sizer = BatchSizer(batch_seconds=0.25, largest=500)
    assert [*sizes(sizer, rate=5, batches=1)] == [1]
    assert 240 <= [*sizes(sizer, rate=1000, batches=20)][-1] <= 250
