"""Rows of jobs, as a database shows them to the engine."""

from __future__ import annotations

from typing import Any

from django_leased_cron.core.outbox import ClaimedOccurrence, JobMessage, UnconfirmedClaim
from django_leased_cron.core.planning_inputs import COLUMNS, SEPARATOR


def planning_inputs(**columns: str) -> str:
    """Join columns the way the database does; those not given are NULL."""
    values = {"one_off": "0"} | columns
    return SEPARATOR.join(values.get(name, "") for name in COLUMNS)


def every(seconds: int, **columns: str) -> str:
    """Return the planning inputs of an interval job."""
    interval = {"interval_id": "1", "interval_every": str(seconds), "interval_period": "seconds"}
    return planning_inputs(**interval | columns)


def daily_at(hour: int, **columns: str) -> str:
    """Return the planning inputs of a job that is due once a day, in UTC unless said otherwise."""
    crontab = {
        "crontab_id": "2",
        "crontab_minute": "0",
        "crontab_hour": str(hour),
        "crontab_day_of_week": "*",
        "crontab_day_of_month": "*",
        "crontab_month_of_year": "*",
        "crontab_timezone": "UTC",
    }
    return planning_inputs(**crontab | columns)


def message(**columns: Any) -> JobMessage:
    """Return what a worker is sent of a job: nothing but the task, unless said otherwise."""
    nothing: dict[str, Any] = dict.fromkeys(JobMessage.__slots__)
    texts = {"name": "nightly report", "task": "reports.build", "args": "[]", "kwargs": "{}", "headers": "{}"}
    return JobMessage(**nothing | texts | {"digest": "d41d"} | columns)


def claimed(job_message: JobMessage | None, *, due_at_ms: int, **columns: Any) -> ClaimedOccurrence:
    """Return an occurrence as a claim returns it."""
    values: dict[str, Any] = {
        "claim": UnconfirmedClaim(occurrence_id=70, epoch=3, attempt=1),
        "job_id": 7,
        "task_id": "task-70",
        "at_most_once": False,
        "claimed_at_ms": due_at_ms,
        "finishes": False,
    }
    return ClaimedOccurrence(due_at_ms=due_at_ms, message=job_message, **values | columns)
