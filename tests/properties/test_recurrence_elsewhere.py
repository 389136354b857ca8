"""Crontabs beside Celery's own and cronsim's: the same wherever they mean the same."""

from __future__ import annotations

from collections.abc import Iterable
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.fields import DAYS_OF_WEEK, FIELDS, HOURS, MINUTES, MONTHS
from tests.sweep.oracle import DAY
from tests.unit.core.elsewhere import FindDue, due_here, due_in_celery, due_in_cronsim, midnight

SPRING = [
    ("Europe/Berlin", "2026-03-29"),
    ("America/New_York", "2026-03-08"),
    ("Europe/Dublin", "2026-03-29"),
    ("Antarctica/Troll", "2026-03-29"),
    ("America/Havana", "2026-03-08"),
]
AUTUMN = [
    ("Europe/Berlin", "2026-10-25"),
    ("America/New_York", "2026-11-01"),
    ("Europe/Dublin", "2026-10-25"),
    ("Antarctica/Troll", "2026-10-25"),
    ("America/Havana", "2026-11-01"),
]
HALF_AN_HOUR = [("Australia/Lord_Howe", "2026-10-04"), ("Australia/Lord_Howe", "2027-04-04")]
EVERY_HOUR = ["*/15 * * * *", "0 * * * *", "5,50 * * * sun", "*/13 * 1-29 * *"]
AT_TIMES = ["30 2 * * *", "0,30 1,2,3 * * *", "15 0-3 * * *", "0 0 * * *", "59 23 * * sat,sun", "0,20,40 2 * * *"]
WITH_STARS = ["*/20 2 * * *", "* 1-3 * * *", "*/10 0-22 * * *", "0 */6 * * *", "15 22-2 * * *"]


def due_around(find_due: FindDue, fields: str, zone: str, day: str) -> list[int]:
    clocks = ZoneInfo(zone)
    return list(find_due(fields, clocks, midnight(day, clocks, days=-2), midnight(day, clocks, days=2)))


@given(fields=FIELDS, zone=st.sampled_from(["UTC", "Asia/Kolkata"]), hours=st.integers(0, 20 * 8766))
def test_celery_agrees_where_the_clocks_are_never_turned(fields: str, zone: str, hours: int) -> None:
    """For as long as nobody turns the clocks all is simple."""
    start = midnight("2020-01-01", ZoneInfo("UTC")) + hours * 3600 + 61
    period = (fields, ZoneInfo(zone), start, start + 40 * DAY)
    assert first(due_here(*period)) == first(due_in_celery(*period))


@given(
    fields=st.builds(
        "{} {} {} {} {}".format, MINUTES, HOURS.filter(lambda hour: hour != "22-2"), st.just("*"), MONTHS, DAYS_OF_WEEK
    ),
    zone=st.sampled_from(["UTC", "Asia/Kolkata"]),
    hours=st.integers(0, 20 * 8766),
)
def test_cronsim_agrees_where_the_clocks_are_never_turned(fields: str, zone: str, hours: int) -> None:
    """But for ranges that wrap around, and for days of month and of week in one crontab."""
    start = midnight("2020-01-01", ZoneInfo("UTC")) + hours * 3600 + 61
    period = (fields, ZoneInfo(zone), start, start + 40 * DAY)
    assert first(due_here(*period)) == first(due_in_cronsim(*period))


def first(found: Iterable[int]) -> list[int]:
    return [due for due, _ in zip(found, range(30), strict=False)]


@pytest.mark.parametrize(("zone", "day"), AUTUMN + HALF_AN_HOUR[1:])
@pytest.mark.parametrize("fields", AT_TIMES + WITH_STARS)
def test_celery_agrees_on_restricted_hours_when_clocks_go_back(fields: str, zone: str, day: str) -> None:
    """Each slot the first time only."""
    assert due_around(due_here, fields, zone, day) == due_around(due_in_celery, fields, zone, day)


@pytest.mark.parametrize(("zone", "day"), SPRING)
@pytest.mark.parametrize("fields", EVERY_HOUR)
def test_celery_agrees_on_every_hour_when_clocks_go_forward_by_whole_hours(fields: str, zone: str, day: str) -> None:
    """What the gap leaves out does not exist."""
    assert due_around(due_here, fields, zone, day) == due_around(due_in_celery, fields, zone, day)


@pytest.mark.parametrize(("zone", "day"), SPRING + AUTUMN)
@pytest.mark.parametrize("fields", EVERY_HOUR)
def test_cronsim_agrees_on_every_hour_when_clocks_are_turned_by_whole_hours(fields: str, zone: str, day: str) -> None:
    """Real time counts."""
    assert due_around(due_here, fields, zone, day) == due_around(due_in_cronsim, fields, zone, day)


@pytest.mark.parametrize(("zone", "day"), SPRING + AUTUMN + HALF_AN_HOUR)
@pytest.mark.parametrize("fields", AT_TIMES)
def test_cronsim_agrees_on_times_of_day(fields: str, zone: str, day: str) -> None:
    """Where neither the minute nor the hour begins with a star: at the end of the gap, the first time in the fold."""
    assert due_around(due_here, fields, zone, day) == due_around(due_in_cronsim, fields, zone, day)
