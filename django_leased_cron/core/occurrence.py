"""One scheduled firing of one job, and its name on the wire."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from uuid import NAMESPACE_URL, uuid5

_NAMESPACE = uuid5(NAMESPACE_URL, "django-leased-cron")


class OccurrenceState(StrEnum):
    """Where an occurrence stands; states only move forward."""

    REQUESTED = "requested"
    """A person asked for it ("run now"); the holder claims it like any other."""
    CLAIMED = "claimed"
    """A term has it in hand or had; nobody has recorded that the broker has it."""
    SENT = "sent"
    """The broker has it."""
    RUNNING = "running"
    """A worker has started it."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """The run raised; or, without a start time, the message could never be published."""
    SKIPPED = "skipped"
    """Accounted for without a message; the reason says why."""
    UNCERTAIN = "uncertain"
    """May or may not have reached the broker, and will not be tried again."""


class SkipReason(StrEnum):
    """Why a due occurrence was accounted for without a message."""

    CATCH_UP = "catch_up"
    """Missed, and the catch-up policy leaves it out."""
    WINDOW = "window"
    """Missed by more than the catch-up window."""
    PAUSED = "paused"
    OVERLAP = "overlap"
    EXPIRED = "expired"
    DISABLED = "disabled"
    RESCHEDULED = "rescheduled"
    DELETED = "deleted"
    MALFORMED = "malformed"


class Delivery(StrEnum):
    """What becomes of an occurrence whose publication may or may not have reached the broker."""

    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"


class CatchUp(StrEnum):
    """What happens to occurrences that came due while nobody scheduled."""

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


class Overlap(StrEnum):
    """What happens to an occurrence whose predecessor is still active."""

    ALLOW = "allow"
    SKIP = "skip"


def build_task_id(*, tenant_key: str, job_id: int, due_at_ms: int) -> str:
    """Return the Celery task id of an occurrence: the same for all its attempts, on every machine, for ever.

    Public on the wire (people correlate logs by it), so the recipe is fixed.
    """
    name = f"{tenant_key}\n{job_id}\n{due_at_ms}"
    return str(uuid5(_NAMESPACE, name))


def format_instant(at_ms: int) -> str:
    """Return an instant as JSON and headers show it: ``2026-03-29T01:00:00.000Z``.

    Args:
        at_ms: milliseconds since the Unix epoch.
    """
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z"
