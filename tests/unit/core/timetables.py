"""Small timetables around one noon, and a reckoning by the settings' defaults."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from django_leased_cron.core.catch_up import Reckoning, reckon
from django_leased_cron.core.crontab import parse_crontab
from django_leased_cron.core.occurrence import CatchUp
from django_leased_cron.core.recurrence import CrontabRecurrence, IntervalRecurrence
from django_leased_cron.core.schedule import JobSchedule

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
MISSED_AFTER = 31_500


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


NOON = ms("2026-06-01 12:00:00")


def crontab(minute: str, hour: str, **bounds: Any) -> JobSchedule:
    fields = parse_crontab(minute=minute, hour=hour, day_of_week="*", day_of_month="*", month_of_year="*")
    return JobSchedule(recurrence=CrontabRecurrence(crontab=fields, zone=ZoneInfo("UTC")), **bounds)


def interval(every_ms: int, **bounds: Any) -> JobSchedule:
    return JobSchedule(recurrence=IntervalRecurrence(every_ms=every_ms), **bounds)


def decide(schedule: JobSchedule, *, due: int, now: int, **changes: Any) -> Reckoning:
    """Reckon by the settings' defaults."""
    settings: dict[str, Any] = {
        "missed_after_ms": MISSED_AFTER,
        "catch_up": CatchUp.ONCE,
        "window_ms": DAY,
        "most": 500,
    }
    return reckon(schedule, next_due_at_ms=due, now_ms=now, **settings | changes)
