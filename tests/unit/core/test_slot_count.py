"""Counting slots agrees with walking them."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

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


def count_and_walk_year(fields: tuple[str, ...], zone: str) -> tuple[Tally, Tally]:
    recurrence = crontab(fields, zone)
    end_ms = START_MS + 366 * 86_400_000
    return (
        count_slots(recurrence, first_ms=START_MS, end_ms=end_ms),
        walk(recurrence, first_ms=START_MS, end_ms=end_ms),
    )


@pytest.mark.parametrize("zone", ZONES)
def test_year_is_counted_as_it_is_walked(zone: str) -> None:
    """With both its turns of the clocks: 2:30 is left out by one of them and repeated by the other."""
    counted, walked = count_and_walk_year(("30", "2", "*", "*", "*"), zone)
    assert counted == walked


def test_years_of_minutes_are_counted_at_once() -> None:
    """55 years are 29 million slots."""
    recurrence = crontab(CRONTABS[0], "UTC")
    tally = count_slots(recurrence, first_ms=0, end_ms=55 * 365 * 86_400_000)
    assert tally == Tally(slots=55 * 365 * 1440, last_due_at_ms=55 * 365 * 86_400_000 - 60_000)
