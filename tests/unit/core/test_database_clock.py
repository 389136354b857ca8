"""What may be thought of the database's clock."""

from __future__ import annotations

import pytest

from django_leased_cron.core.clock import BootTime
from django_leased_cron.core.database_clock import (
    EARLIEST_MS,
    LATEST_MS,
    DatabaseClockEstimate,
    is_plausible,
)

START_MS = 1_800_000_000_000


def note(estimate: DatabaseClockEstimate, *, at: float, ahead_ms: int = 0, before_s: float = 0.0005) -> None:
    """Note a reading that arrives at boot time ``at``, sent ``before_s`` earlier and taken in the middle."""
    read_at = at - before_s / 2
    estimate.note(
        START_MS + ahead_ms + round(read_at * 1000), sent_at=BootTime(at - before_s), received_at=BootTime(at)
    )


def estimate_with(*ats: float) -> DatabaseClockEstimate:
    estimate = DatabaseClockEstimate()
    for at in ats:
        note(estimate, at=at)
    return estimate


@pytest.mark.parametrize("reading", [0, None, -1, "1800000000000", 1.8e12, True, EARLIEST_MS - 1, LATEST_MS + 1])
def test_reading_that_is_no_time_of_day_is_refused(reading: object) -> None:
    """Zero, NULL, text, the last century."""
    assert not is_plausible(reading)


@pytest.mark.parametrize("reading", [EARLIEST_MS, START_MS, LATEST_MS])
def test_reading_of_this_and_the_next_century_is_plausible(reading: int) -> None:
    """The bounds themselves included."""
    assert is_plausible(reading)


def test_clock_never_read_is_not_trusted_and_not_known() -> None:
    """There is nothing to reckon from."""
    estimate = DatabaseClockEstimate()
    assert not estimate.is_trusted
    with pytest.raises(LookupError, match="never read"):
        estimate.now_ms(BootTime(1))


def test_database_time_goes_on_with_boot_time() -> None:
    """One reading is enough to reckon from."""
    estimate = estimate_with(100)
    assert estimate.is_trusted
    assert estimate.now_ms(BootTime(160)) == START_MS + 160_000


def test_tightest_reading_counts() -> None:
    """A slow reply says less than a quick one, before it or after it."""
    estimate = DatabaseClockEstimate()
    estimate.note(START_MS + 100_000, sent_at=BootTime(100), received_at=BootTime(102))
    assert estimate.boot_time_of(START_MS + 200_000) == BootTime(202)
    estimate.note(START_MS + 103_000, sent_at=BootTime(103), received_at=BootTime(103.01))
    estimate.note(START_MS + 104_000, sent_at=BootTime(104), received_at=BootTime(105))
    assert estimate.boot_time_of(START_MS + 200_000) == pytest.approx(200.01)


def test_old_reading_is_replaced_however_tight() -> None:
    """Two clocks drift apart; within a minute that does not matter."""
    estimate = estimate_with(100)
    note(estimate, at=161, ahead_ms=20, before_s=0.5)
    assert estimate.now_ms(BootTime(161)) == pytest.approx(START_MS + 161_020, abs=1)


def test_small_step_is_followed_at_once() -> None:
    """A reading that contradicts the old one within the tolerance is the better one, though less tight."""
    estimate = estimate_with(100)
    note(estimate, at=101, ahead_ms=-3_000, before_s=0.1)
    assert estimate.is_trusted
    assert estimate.now_ms(BootTime(101)) == pytest.approx(START_MS + 98_000, abs=1)


@pytest.mark.parametrize("step_ms", [-6_000, 6_000, -86_400_000])
def test_step_of_the_clock_suspends_trust_until_three_readings_agree(step_ms: int) -> None:
    """Until then the old offset stands; then the new one does."""
    estimate = estimate_with(100)
    for at in (101, 102):
        note(estimate, at=at, ahead_ms=step_ms)
        assert not estimate.is_trusted
        assert estimate.now_ms(BootTime(at)) == START_MS + at * 1000
    note(estimate, at=103, ahead_ms=step_ms)
    assert estimate.is_trusted
    assert estimate.now_ms(BootTime(103)) == START_MS + 103_000 + step_ms


def test_clock_that_jumps_about_stays_suspended() -> None:
    """The three readings must agree with each other, in a row."""
    estimate = estimate_with(100)
    for at in range(101, 120):
        note(estimate, at=at, ahead_ms=10_000 * (at % 3 + 1))
        assert not estimate.is_trusted


def test_one_wrong_reading_also_needs_three_good_ones() -> None:
    """Returning to the old offset is no shortcut: it is the same question."""
    estimate = estimate_with(100)
    note(estimate, at=101, ahead_ms=10_000)
    for at, trusted in ((102, False), (103, False), (104, True)):
        note(estimate, at=at)
        assert estimate.is_trusted is trusted


def test_reply_to_a_frozen_process_is_no_step_of_the_clock() -> None:
    """It was sent an hour before it was received: the reading may be from any moment between."""
    estimate = estimate_with(100)
    estimate.note(START_MS + 101_000, sent_at=BootTime(101), received_at=BootTime(3701))
    assert estimate.is_trusted
