"""What people read in the place of integers and raw columns."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from django_leased_cron.core.planning_inputs import COLUMNS, PlanningInputs
from django_leased_cron.display import describe_schedule, show_distance, show_duration, show_instant, to_datetime

SPRING_MS = 1_774_746_000_000  # 2026-03-29 01:00 UTC: in Berlin the clocks go from 02:00 to 03:00


def describe(**columns: str) -> str:
    inputs = PlanningInputs(tuple(({"one_off": "0"} | columns).get(name, "") for name in COLUMNS))
    return describe_schedule(inputs, storage_zone=UTC)


def test_instant_is_shown_in_the_zone_asked_for() -> None:
    """Else in the current one; milliseconds only where there are any."""
    berlin = ZoneInfo("Europe/Berlin")
    assert show_instant(SPRING_MS, zone=berlin) == "2026-03-29 03:00:00 CEST"
    assert show_instant(SPRING_MS - 1, zone=berlin) == "2026-03-29 01:59:59.999 CET"
    with timezone.override("Asia/Kolkata"):
        assert show_instant(SPRING_MS) == "2026-03-29 06:30:00 IST"


@pytest.mark.parametrize(("at_ms", "year"), [(-(10**18), 1970), (10**18, 9999)])
def test_instant_out_of_the_calendar_is_shown_at_its_edge(at_ms: int, year: int) -> None:
    """A list with one absurd number is still a list."""
    assert to_datetime(at_ms, zone=UTC).year == year
    with timezone.override("Pacific/Kiritimati"):  # 14 hours ahead of UTC
        assert show_instant(at_ms)


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1.0 s"),
        (10_000, "10 s"),
        (119_999, "119 s"),
        (120_000, "2 min"),
        (7_199_999, "119 min"),
        (7_200_000, "2 h"),
        (172_800_000, "2 days"),
    ],
)
def test_duration_has_one_unit(duration_ms: int, text: str) -> None:
    """The largest of which there are two."""
    assert show_duration(duration_ms) == text


def test_distance_says_which_way() -> None:
    """Now itself is yet to come."""
    assert show_distance(5000, now_ms=5000) == "in 0 ms"
    assert show_distance(245_000, now_ms=5000) == "in 4 min"
    assert show_distance(5000, now_ms=35_000) == "30 s ago"


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"interval_id": "1", "interval_every": "90", "interval_period": "seconds"}, "every 90 seconds"),
        ({"interval_id": "1", "interval_every": "1", "interval_period": "days"}, "every day"),
        ({"interval_id": "1", "interval_every": "3", "interval_period": "fortnights"}, "every 3 fortnights"),
        ({"interval_id": "7"}, "interval schedule 7 no longer exists"),
        (
            {
                "crontab_id": "1",
                "crontab_minute": "30",
                "crontab_hour": "5",
                "crontab_day_of_month": "1",
                "crontab_month_of_year": "*",
                "crontab_day_of_week": "mon",
                "crontab_timezone": "Mars/Olympus",
                "one_off": "true",
            },
            "crontab 30 5 1 * mon Mars/Olympus, once",
        ),
        ({"crontab_id": "1", "crontab_hour": "5"}, "crontab - 5 - - - -"),
        ({"crontab_id": "7"}, "crontab schedule 7 no longer exists"),
        (
            {"solar_id": "1", "solar_event": "sunset", "solar_latitude": "40.7", "solar_longitude": "-74"},
            "solar sunset 40.7 -74",
        ),
        (
            {"clocked_id": "1", "clocked_time": "2026-03-29 01:00:00.500000", "one_off": "1"},
            "clocked at 2026-03-29T01:00:00.500Z",
        ),
        ({"clocked_id": "1", "clocked_time": "infinity"}, "clocked at infinity"),
        ({"clocked_id": "7"}, "clocked schedule 7 no longer exists"),
        ({}, "no schedule"),
        ({"interval_id": "1", "clocked_id": "1"}, "interval and clocked: choose one"),
    ],
)
def test_schedule_is_described_whatever_its_row_holds(columns: dict[str, str], text: str) -> None:
    """Right and malformed alike."""
    assert describe(**columns) == text
