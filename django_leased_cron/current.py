"""Which occurrence the running task is, read from the message's ``leased_cron`` header."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from celery import current_app

HEADER: Final = "leased_cron"
_UNIX_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentOccurrence:
    """The occurrence that a task runs for.

    Attributes:
        due_at: its nominal time, in UTC: when it was to fire, whenever it runs.
        epoch: of the term that dispatched it.
        attempt: grows each time it is published again.
    """

    tenant: str
    job_id: int
    occurrence_id: int
    due_at: datetime
    epoch: int
    attempt: int

    @property
    def due_at_ms(self) -> int:
        return (self.due_at - _UNIX_EPOCH) // timedelta(milliseconds=1)


def current_occurrence() -> CurrentOccurrence | None:
    """Return the occurrence that the task running in this thread was scheduled for.

    Returns:
        Nothing outside a worker, and in tasks that somebody else has sent. The same in a retry as in the first run;
        and in a task that a scheduled one calls as a function, the scheduled one's.
    """
    task = current_app.current_worker_task
    return None if task is None else read_occurrence(task.request)


def read_occurrence(request: Any) -> CurrentOccurrence | None:
    """Return what a task request says of its occurrence; nothing where it says nothing that can be read."""
    header = (request.headers or {}).get(HEADER)
    if not isinstance(header, dict):
        return None
    try:
        return CurrentOccurrence(
            tenant=str(header["tenant"]),
            job_id=int(header["job_id"]),
            occurrence_id=int(header["occurrence_id"]),
            due_at=datetime.fromisoformat(header["due_at"]).astimezone(UTC),
            epoch=int(header["epoch"]),
            attempt=int(header["attempt"]),
        )
    except (KeyError, TypeError, ValueError):
        return None
