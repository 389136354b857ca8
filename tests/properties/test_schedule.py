"""An interval keeps its cadence, from every base and every moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from django_leased_cron.core.recurrence import IntervalRecurrence
from django_leased_cron.core.schedule import JobSchedule, next_due
from tests.unit.core.timetables import DAY, SECOND


@given(every=st.integers(SECOND, 40 * DAY), base=st.integers(0, 2**42), after=st.integers(0, 2**42))
def test_interval_slot_is_the_nearest_one_of_the_cadence(every: int, base: int, after: int) -> None:
    """Strictly later, at most one interval away, and a whole number of intervals from the base: no drift."""
    due = next_due(JobSchedule(recurrence=IntervalRecurrence(every_ms=every)), after_ms=after, base_ms=base)
    assert due is not None
    assert after < due <= after + every
    assert (due - base) % every == 0
