"""Crontabs beside Celery's own and cronsim's: what the documentation says of where they differ, and its examples."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSimError

from django_leased_cron.exceptions import MalformedJobError
from tests.sweep.oracle import DAY
from tests.unit.core.elsewhere import FindDue, due_here, due_in_celery, due_in_cronsim, midnight
from tests.unit.test_docs import read_tables


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
