"""What is told of the nights on which clocks are turned."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from django_leased_cron.core.crontab import parse_crontab
from django_leased_cron.core.recurrence import CrontabRecurrence
from django_leased_cron.job_tools.clock_changes import (
    FIRST,
    MOVED,
    SECOND,
    describe_reading,
    find_changes,
    find_surprises,
)

BERLIN_SKIPS = "is left out by the clocks of Europe/Berlin"
ONCE = "it comes due the first time only"
BERLIN_REPEATS = "is read twice on the clocks of Europe/Berlin"


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def crontab(zone: str, *, minute: str = "0", hour: str = "*") -> CrontabRecurrence:
    fields = parse_crontab(minute=minute, hour=hour, day_of_week="*", day_of_month="*", month_of_year="*")
    return CrontabRecurrence(crontab=fields, zone=ZoneInfo(zone))


@pytest.mark.parametrize(
    ("zone", "minute", "hour", "due", "note"),
    [
        ("Europe/Berlin", "30", "2", "2026-03-29T01:00Z", MOVED),
        ("Europe/Berlin", "0", "2,3", "2026-03-29T01:00Z", MOVED),
        ("Europe/Berlin", "0", "3", "2026-03-29T01:00Z", ""),
        ("Europe/Berlin", "0", "*", "2026-03-29T01:00Z", ""),
        ("Europe/Berlin", "30", "2", "2026-03-28T01:30Z", ""),
        ("Europe/Berlin", "30", "2", "2026-10-25T00:30Z", FIRST),
        ("Europe/Berlin", "30", "*", "2026-10-25T00:30Z", FIRST),
        ("Europe/Berlin", "30", "*", "2026-10-25T01:30Z", SECOND),
        ("Europe/Berlin", "0", "*", "2026-10-25T02:00Z", ""),
        (
            "Australia/Lord_Howe",
            "*/20",
            "2",
            "2027-04-03T15:30Z",
            "",
        ),  # 01:30 to 02:00 twice, 02:00 once
        ("Australia/Lord_Howe", "40", "1", "2027-04-03T14:40Z", FIRST),
        ("Pacific/Apia", "0", "12", "2011-12-30T10:00Z", MOVED),
        ("Asia/Kolkata", "0", "12", "2026-03-29T06:30Z", ""),
    ],
)
def test_reading_is_described(zone: str, minute: str, hour: str, due: str, note: str) -> None:
    """Only where it is peculiar, and by the rule that the scheduler keeps."""
    assert describe_reading(crontab(zone, minute=minute, hour=hour), at(due)) == note


@pytest.mark.parametrize(
    ("zone", "minute", "hour", "surprises"),
    [
        (
            "Europe/Berlin",
            "*/20",
            "2",
            [
                f"2026-03-29 02:00 (and 2 more, to 2026-03-29 02:40) {BERLIN_SKIPS}; it comes due at 2026-03-29 03:00",
                f"2026-10-25 02:00 (and 2 more, to 2026-10-25 02:40) {BERLIN_REPEATS}; {ONCE}",
            ],
        ),
        ("Europe/Berlin", "0", "3", []),
        ("Europe/Berlin", "30", "*", []),
        ("Asia/Kolkata", "30", "2", []),
        (
            "Australia/Lord_Howe",
            "45",
            "1",
            [
                f"2026-04-05 01:45 is read twice on the clocks of Australia/Lord_Howe; {ONCE}",
            ],
        ),
    ],
)
def test_surprises_of_a_year(zone: str, minute: str, hour: str, surprises: list[str]) -> None:
    """In order, a sentence for each change of the clocks that touches a wall-clock slot."""
    year = {"from_ms": at("2026-01-01T00:00Z"), "until_ms": at("2027-01-01T00:00Z")}
    assert list(find_surprises(crontab(zone, minute=minute, hour=hour), **year)) == surprises


def test_changes_are_found_to_the_second() -> None:
    """Those after the start, up to and including the end."""
    berlin, spring = ZoneInfo("Europe/Berlin"), at("2026-03-29T01:00Z") // 1000
    [change] = find_changes(berlin, spring - 1, spring)
    assert (change.at, change.old_offset, change.new_offset) == (spring, 3600, 7200)
    assert list(find_changes(berlin, spring, spring + 86_400)) == []
    assert list(find_changes(berlin, spring - 9, spring - 1)) == []
