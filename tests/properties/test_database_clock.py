"""What may be thought of the database's clock, whatever the round trips and the drift."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from django_leased_cron.core.clock import BootTime
from django_leased_cron.core.database_clock import DatabaseClockEstimate
from tests.unit.core.test_database_clock import START_MS


@given(
    round_trips=st.lists(st.tuples(st.floats(0, 50), st.floats(0, 2), st.floats(0, 1)), min_size=1, max_size=30),
    ahead_ms=st.integers(0, 100_000),
)
def test_estimate_is_never_early_and_within_the_round_trips(
    round_trips: list[tuple[float, float, float]], ahead_ms: int
) -> None:
    """For a clock that keeps pace, whatever the round trips and wherever in them it was read."""
    estimate, at, widest = DatabaseClockEstimate(), 0.0, 0.0
    for pause, width, share in round_trips:
        sent_at = at + pause
        at = sent_at + width
        reading = START_MS + int((sent_at + width * share) * 1000)
        estimate.note(reading, sent_at=BootTime(sent_at), received_at=BootTime(at))
        widest = max(widest, width)
        assert estimate.is_trusted
        wanted_ms = START_MS + int(at * 1000) + ahead_ms
        boot_time = estimate.boot_time_of(wanted_ms)
        assert START_MS + boot_time * 1000 >= wanted_ms - 1e-3
        assert abs(estimate.now_ms(BootTime(at)) - (START_MS + at * 1000)) <= widest * 500 + 2


@given(drift_ppm=st.integers(-200, 200), pauses=st.lists(st.floats(0.1, 60), min_size=1, max_size=50))
def test_slow_drift_is_followed(drift_ppm: int, pauses: list[float]) -> None:
    """The estimate is off by no more than two minutes' drift, and drift alone never suspends it."""
    estimate, at = DatabaseClockEstimate(), 0.0
    for pause in pauses:
        at += pause
        true_ms = START_MS + at * 1000 * (1 + drift_ppm / 1e6)
        estimate.note(int(true_ms), sent_at=BootTime(at - 0.001), received_at=BootTime(at + 0.001))
        assert estimate.is_trusted
        assert abs(estimate.now_ms(BootTime(at)) - true_ms) <= 120_000 * 200 / 1e6 + 2
