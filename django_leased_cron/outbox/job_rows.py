"""A job's row with its schedule's, and the expressions over them that are compared with its plan."""

from __future__ import annotations

from collections.abc import Callable
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

_SLACK_MS: Final = 1000
"""Some databases round fractions of a second."""
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

    Both are what the column reads like, so that neither a zone nor a change of the project's zone is in it.
    """
    last_run = dialect.instant_ms("p.last_run_at")
    return f"COALESCE({last_run} > s.known_run_at_ms + {_SLACK_MS}, false)"


def later_known_run(row: str) -> str:
    """Return the expression for a plan's ``known_run_at_ms`` that is never set back.

    Neither is ``last_run_at``, though clocks are in autumn, and where a project moves to another zone.
    """
    return f"""CASE WHEN t.known_run_at_ms > {row} THEN t.known_run_at_ms
        ELSE COALESCE({row}, t.known_run_at_ms) END"""
