"""Counting slots agrees with walking them."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_leased_cron.core.crontab import parse_crontab
from django_leased_cron.core.recurrence import CrontabRecurrence
from django_leased_cron.core.slot_count import Tally, count_slots

CRONTABS = [
    ("*", "*", "*", "*", "*"),
    ("*/15", "*", "*", "*", "*"),
    ("30", "2", "*", "*", "*"),
    ("*/20", "1-3", "*", "*", "*"),
    ("0", "0", "*", "1", "*"),
    ("5", "4", "sun", "*", "*"),
    ("0", "12", "*", "29", "2"),
]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia"]
START_MS = round(datetime(2011, 12, 1, tzinfo=UTC).timestamp() * 1000)


def crontab(fields: tuple[str, ...], zone: str) -> CrontabRecurrence:
    minute, hour, day_of_week, day_of_month, month_of_year = fields
    parsed = parse_crontab(
        minute=minute, hour=hour, day_of_week=day_of_week, day_of_month=day_of_month, month_of_year=month_of_year
    )
    return CrontabRecurrence(crontab=parsed, zone=ZoneInfo(zone))


def walk(recurrence: CrontabRecurrence, *, first_ms: int, end_ms: int) -> Tally:
    slots, last = 0, None
    due_ms = recurrence.next_after(first_ms - 1)
    while due_ms is not None and due_ms < end_ms:
        slots, last = slots + 1, due_ms
        due_ms = recurrence.next_after(due_ms)
    return Tally(slots=slots, last_due_at_ms=last)


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
    recurrence = crontab(fields, zone)
    end_ms = START_MS + 366 * 86_400_000
    assert count_slots(recurrence, first_ms=START_MS, end_ms=end_ms) == walk(
        recurrence, first_ms=START_MS, end_ms=end_ms
    )


def test_years_of_minutes_are_counted_at_once() -> None:
    """55 years are 29 million slots."""
    recurrence = crontab(CRONTABS[0], "UTC")
    tally = count_slots(recurrence, first_ms=0, end_ms=55 * 365 * 86_400_000)
    assert tally == Tally(slots=55 * 365 * 1440, last_due_at_ms=55 * 365 * 86_400_000 - 60_000)
