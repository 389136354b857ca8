"""Occurrence rows, and how many of them travel in one parameter."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from django_leased_cron.core.occurrence import OccurrenceState
from django_leased_cron.database.dialect import Dialect
from django_leased_cron.database.tables import JOB, OCCURRENCE

_NEW_OCCURRENCE: Final = {
    "job_id": "integer",
    "due_at_ms": "integer",
    "first_due_at_ms": "integer",
    "slots": "integer",
    "state": "text",
    "reason": "text",
    "epoch": "integer",
    "attempt": "integer",
    "task_id": "text",
    "delivery": "text",
    "claimed_at_ms": "integer",
}


def encode_rows(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as the JSON that ``Dialect.rows`` unfolds; ``None`` is left out, a missing key reads as NULL."""
    return json.dumps([{key: _storable(value) for key, value in row.items() if value is not None} for row in rows])


def _storable(value: Any) -> Any:
    """Return text without what PostgreSQL stores in no text: one bad message in an error must not stop a confirm."""
    if not isinstance(value, str):
        return value
    return value.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")


def insert_occurrences(dialect: Dialect) -> str:
    """Return the statement that adds occurrences from ``%(rows)s``; one that is there already is left alone (I4)."""
    select = ", ".join([*(f"r.{name}" for name in _NEW_OCCURRENCE), "COALESCE(p.name, '')"])
    source = f"{dialect.rows('rows', _NEW_OCCURRENCE, alias='r')} LEFT JOIN {JOB} AS p ON p.id = r.job_id"
    return dialect.insert_or_ignore(
        OCCURRENCE,
        columns=[*_NEW_OCCURRENCE, "job_name"],
        select=f"SELECT {select} FROM {source}",
        conflict=["job_id", "due_at_ms"],
    )


def claimed_row(
    job_id: int, *, due_at_ms: int, epoch: int, task_id: str, delivery: str, claimed_at_ms: int
) -> dict[str, Any]:
    """Return the row of one slot that this term dispatches."""
    return _row(job_id, due_at_ms, OccurrenceState.CLAIMED, epoch) | {
        "attempt": 1,
        "task_id": task_id,
        "delivery": delivery,
        "claimed_at_ms": claimed_at_ms,
    }


def skipped_row(
    job_id: int, *, due_at_ms: int, epoch: int, reason: str, first_due_at_ms: int | None = None, slots: int = 1
) -> dict[str, Any]:
    """Return the row of one stretch of skipped slots, ``due_at_ms`` the last of them."""
    stretch = {"first_due_at_ms": first_due_at_ms, "slots": slots, "reason": reason}
    return _row(job_id, due_at_ms, OccurrenceState.SKIPPED, epoch) | stretch


def _row(job_id: int, due_at_ms: int, state: OccurrenceState, epoch: int) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "due_at_ms": due_at_ms,
        "slots": 1,
        "state": state,
        "reason": "",
        "epoch": epoch,
        "attempt": 0,
        "task_id": "",
        "delivery": "",
    }
