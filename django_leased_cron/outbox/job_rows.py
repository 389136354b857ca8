"""A job's row with its schedule's, and the expressions over them that are compared with its plan."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from django_leased_cron.core.planning_inputs import COLUMNS, SEPARATOR
from django_leased_cron.database.dialect import Dialect
from django_leased_cron.database.tables import JOB

JOB_WITH_SCHEDULE: Final = f"""{JOB} AS p
    LEFT JOIN django_celery_beat_intervalschedule AS i ON i.id = p.interval_id
    LEFT JOIN django_celery_beat_crontabschedule AS c ON c.id = p.crontab_id
    LEFT JOIN django_celery_beat_solarschedule AS so ON so.id = p.solar_id
    LEFT JOIN django_celery_beat_clockedschedule AS cl ON cl.id = p.clocked_id"""
SCHEDULE_JOINS: Final = JOB_WITH_SCHEDULE.split("\n", 1)[1]

_SLACK: Final = timedelta(seconds=1)
_SLACK_OF_LOCAL_TIME: Final = timedelta(hours=3)
_TEXT, _NUMBER, _INSTANT = "text", "number", "instant"
_SOURCES: Final = {
    "interval_id": ("p.interval_id", _NUMBER),
    "interval_every": ("i.every", _NUMBER),
    "interval_period": ("i.period", _TEXT),
    "crontab_id": ("p.crontab_id", _NUMBER),
    "crontab_minute": ("c.minute", _TEXT),
    "crontab_hour": ("c.hour", _TEXT),
    "crontab_day_of_week": ("c.day_of_week", _TEXT),
    "crontab_day_of_month": ("c.day_of_month", _TEXT),
    "crontab_month_of_year": ("c.month_of_year", _TEXT),
    "crontab_timezone": ("c.timezone", _TEXT),
    "solar_id": ("p.solar_id", _NUMBER),
    "solar_event": ("so.event", _TEXT),
    "solar_latitude": ("so.latitude", _NUMBER),
    "solar_longitude": ("so.longitude", _NUMBER),
    "clocked_id": ("p.clocked_id", _NUMBER),
    "clocked_time": ("cl.clocked_time", _INSTANT),
    "one_off": ("p.one_off", _NUMBER),
    "start_time": ("p.start_time", _INSTANT),
    "expires": ("p.expires", _INSTANT),
}


def planning_inputs(dialect: Dialect) -> str:
    """Return the expression, over :data:`JOB_WITH_SCHEDULE`, that builds the text of ``core/planning_inputs.py``."""
    as_text: dict[str, Callable[[str], str]] = {
        _TEXT: str,
        _NUMBER: dialect.number_text,
        _INSTANT: dialect.instant_text,
    }
    parts = [as_text[kind](column) for column, kind in (_SOURCES[name] for name in COLUMNS)]
    return dialect.concatenate(parts, separator=SEPARATOR)


def message_digest(dialect: Dialect) -> str:
    """Return the expression, over the job's row, that changes with what is sent to the worker."""
    return dialect.md5(dialect.concatenate(["p.args", "p.kwargs", "p.headers"], separator=SEPARATOR))


def run_by_other(dialect: Dialect) -> str:
    """Return the condition that another scheduler fired a job since this app last wrote or saw its ``last_run_at``.

    ``%(run_slack_ms)s`` says by how much it must be newer, see :func:`find_run_slack_ms`.
    """
    last_run = dialect.instant_ms("p.last_run_at")
    return f"COALESCE({last_run} > s.known_run_at_ms + %(run_slack_ms)s, false)"


def find_run_slack_ms(storage_zone: tzinfo, *, now: datetime) -> int:
    """Return what a stored ``last_run_at``, read as UTC, may be ahead of the true one without meaning anything.

    A second for databases that drop fractions. Where local time is stored: its offset too, and hours for offsets that
    changed since the row was written; a false alarm there would put the job off for ever, a missed one lets catch-up
    repeat one firing.
    """
    offset = now.astimezone(storage_zone).utcoffset() or timedelta(0)
    slack = _SLACK if storage_zone is UTC else offset + _SLACK_OF_LOCAL_TIME
    return slack // timedelta(milliseconds=1)
