"""Crontabs beside Celery's own and cronsim's: the same wherever they mean the same, else as the documentation says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSimError
from hypothesis import given, settings
from hypothesis import strategies as st

from django_leased_cron.exceptions import MalformedJobError
from tests.sweep.compare import build_recurrence, due_between
from tests.sweep.oracle import DAY
from tests.unit.core.elsewhere import due_in_celery, due_in_cronsim
from tests.unit.core.fields import DAYS_OF_WEEK, FIELDS, HOURS, MINUTES, MONTHS
from tests.unit.test_docs import read_tables

FindDue = Callable[[str, ZoneInfo, int, int], Iterable[int]]

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


def due_here(fields: str, zone: ZoneInfo, start: int, end: int) -> Iterable[int]:
    return due_between(build_recurrence(fields, zone), start, end)


def midnight(day: str, zone: ZoneInfo, *, days: int = 0) -> int:
    return int((datetime.fromisoformat(day) + timedelta(days=days)).replace(tzinfo=zone).timestamp())


def due_around(find_due: FindDue, fields: str, zone: str, day: str) -> list[int]:
    clocks = ZoneInfo(zone)
    return list(find_due(fields, clocks, midnight(day, clocks, days=-2), midnight(day, clocks, days=2)))


# Where they mean the same.


@settings(max_examples=100, deadline=None)
@given(fields=FIELDS, zone=st.sampled_from(["UTC", "Asia/Kolkata"]), hours=st.integers(0, 20 * 8766))
def test_celery_agrees_where_the_clocks_are_never_turned(fields: str, zone: str, hours: int) -> None:
    """For as long as nobody turns the clocks all is simple."""
    start = midnight("2020-01-01", ZoneInfo("UTC")) + hours * 3600 + 61
    period = (fields, ZoneInfo(zone), start, start + 40 * DAY)
    assert first(due_here(*period)) == first(due_in_celery(*period))


@settings(max_examples=100, deadline=None)
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


# Where they do not, and what the documentation promises.


def read_documented(*first_headings: str) -> list[list[str]]:
    [table] = [
        table
        for table in read_tables("explanation/schedules.md")
        if table[0][: len(first_headings)] == [*first_headings]
    ]
    return table[1:]


def times_of_day(find_due: FindDue, fields: str, zone: str, day: str) -> str:
    """Return what the clocks read whenever a crontab comes due on a local day, as the documentation writes it."""
    clocks = ZoneInfo(zone)
    start, end = midnight(day, clocks), midnight(day, clocks, days=1)
    found = [datetime.fromtimestamp(at, clocks) for at in find_due(fields, clocks, start - DAY, end) if at >= start]
    if len(found) > 8:
        return f"{len(found)} times"
    return ", ".join(f"{at:%H:%M}" + (" again" if at.fold else "") for at in found) or "never"


def count_firings(find_due: FindDue, fields: str) -> str:
    """Return how often a crontab comes due in a year without change of clocks, as the documentation writes it."""
    clocks = ZoneInfo("UTC")
    try:
        found = list(find_due(fields, clocks, midnight("2026-01-01", clocks), midnight("2027-01-01", clocks)))
    except (MalformedJobError, ValueError, CronSimError):
        return "refused"
    return str(len(found))


@pytest.mark.parametrize(("fields", "zone", "day", "fires"), read_documented("crontab", "zone", "day", "fires"))
def test_documented_examples_of_clock_changes(fields: str, zone: str, day: str, fires: str) -> None:
    """The rule's worked examples."""
    assert times_of_day(due_here, fields.strip("`"), zone, day) == fires


@pytest.mark.parametrize(
    ("fields", "zone", "day", "here", "celery", "cronsim", "_why"),
    read_documented("crontab", "zone", "day", "here", "Celery 5.7", "cronsim 2.8"),
)
def test_documented_differences_when_clocks_are_turned(
    fields: str, zone: str, day: str, here: str, celery: str, cronsim: str, _why: str
) -> None:
    """Each of the three does what the table says of it."""
    fields = fields.strip("`")
    assert [times_of_day(find, fields, zone, day) for find in (due_here, due_in_celery, due_in_cronsim)] == [
        here,
        celery,
        cronsim,
    ]


@pytest.mark.parametrize(
    ("fields", "here", "cronsim", "_why"), read_documented("crontab", "here and Celery 5.7", "cronsim 2.8")
)
def test_documented_differences_in_reading_fields(fields: str, here: str, cronsim: str, _why: str) -> None:
    """How often each fires in 2026, in UTC, or that it refuses."""
    fields = fields.strip("`")
    assert count_firings(due_here, fields) == count_firings(due_in_celery, fields) == here
    assert count_firings(due_in_cronsim, fields) == cronsim
