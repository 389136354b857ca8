"""What is watched for edits."""

from __future__ import annotations

from typing import Final

JOB_COLUMNS: Final = (
    "enabled",
    "interval_id",
    "crontab_id",
    "solar_id",
    "clocked_id",
    "one_off",
    "start_time",
    "expires",
    "args",
    "kwargs",
    "headers",
)
"""What a plan is made from, and what can be wrong with a message; not what the scheduler writes at a dispatch."""

SCHEDULES: Final = {
    "interval": "django_celery_beat_intervalschedule",
    "crontab": "django_celery_beat_crontabschedule",
    "solar": "django_celery_beat_solarschedule",
    "clocked": "django_celery_beat_clockedschedule",
}
"""Kind to table; every column counts. A row is of no interest before a job points to it."""

SCHEDULE_COLUMNS: Final = {
    "interval": ("every", "period"),
    "crontab": ("minute", "hour", "day_of_week", "day_of_month", "month_of_year", "timezone"),
    "solar": ("event", "latitude", "longitude"),
    "clocked": ("clocked_time",),
}
