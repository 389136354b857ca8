"""From a job's row to what is published for one of its occurrences."""

from __future__ import annotations

import json
from datetime import tzinfo
from typing import Any, Final

from django_leased_cron.core.occurrence import format_instant
from django_leased_cron.core.outbox import ClaimedOccurrence, JobMessage
from django_leased_cron.core.publication import Publication
from django_leased_cron.core.schedule import parse_instant
from django_leased_cron.exceptions import MalformedJobError

_OURS_TO_SET: Final = frozenset({"id", "task"})
_SCHEMA_HEADER: Final = "_schema_name"
"""Where tenant-schemas-celery looks for the schema that a worker is to run the task in."""
_LONGEST_EXPIRY_S: Final = 10 * 366 * 86_400.0
"""Later than any worker will look; Celery cannot count to the end of the calendar."""
_EXAMPLES: Final[dict[type, str]] = {list: "array, such as [1, 2]", dict: 'object, such as {"key": 1}'}


def check_message(*, args: str, kwargs: str, headers: str) -> None:
    """Raise ``MalformedJobError`` where a job's arguments or headers cannot be sent."""
    _decode("args", args, list)
    _decode("kwargs", kwargs, dict)
    _decode_headers(headers)


def build_publication(
    occurrence: ClaimedOccurrence,
    message: JobMessage,
    *,
    tenant_key: str,
    now_ms: int,
    storage_zone: tzinfo,
    schema: str = "",
) -> Publication:
    """Decode a job's row into a publication, with the headers that beat and this app add.

    A ``schema`` is named in the header that tenant-schemas-celery reads, whatever the job's own headers say.

    Raises:
        MalformedJobError: a column that cannot be sent as it stands.
    """
    claim = occurrence.claim
    headers = _decode_headers(message.headers)
    if schema:
        headers[_SCHEMA_HEADER] = schema
    headers |= {
        "periodic_task_name": message.name,
        "celery_beat_task": True,
        "leased_cron": {
            "tenant": tenant_key,
            "job_id": occurrence.job_id,
            "occurrence_id": claim.occurrence_id,
            "due_at": format_instant(occurrence.due_at_ms),
            "epoch": claim.epoch,
            "attempt": claim.attempt,
        },
    }
    return Publication(
        occurrence_id=claim.occurrence_id,
        attempt=claim.attempt,
        task=message.task,
        task_id=occurrence.task_id,
        args=_decode("args", message.args, list),
        kwargs=_decode("kwargs", message.kwargs, dict),
        headers=headers,
        queue=message.queue or None,
        exchange=message.exchange or None,
        routing_key=message.routing_key or None,
        priority=message.priority,
        expires_s=_find_expiry(message, now_ms=now_ms, storage_zone=storage_zone),
    )


def _find_expiry(message: JobMessage, *, now_ms: int, storage_zone: tzinfo) -> float | None:
    """Return in how many seconds a worker must no longer start it: the earlier of the two columns."""
    seconds: list[float] = []
    if message.expire_seconds is not None:
        seconds.append(message.expire_seconds)
    if message.expires:
        expires_at_ms = parse_instant("expires", message.expires, storage_zone=storage_zone)
        seconds.append((expires_at_ms - now_ms) / 1000)
    soonest_s = min(seconds, default=_LONGEST_EXPIRY_S)
    return max(0.0, soonest_s) if soonest_s < _LONGEST_EXPIRY_S else None


def _decode_headers(text: str) -> dict[str, Any]:
    headers: dict[str, Any] = _decode("headers", text, dict)
    taken = _OURS_TO_SET & headers.keys()
    if taken:
        # They would go over the message's own: many occurrences, one id.
        raise MalformedJobError("headers", None, f"may not set {', '.join(sorted(taken))}: Celery's own headers")
    return headers


def _decode(column: str, text: str, wanted: type[list[Any]] | type[dict[str, Any]]) -> Any:
    example = _EXAMPLES[wanted]
    try:
        value = json.loads(text) if text else wanted()
    except ValueError as exc:
        raise MalformedJobError(column, None, f"is not JSON ({exc}); write a JSON {example}") from exc
    except RecursionError as exc:
        raise MalformedJobError(column, None, "is nested too deeply") from exc
    if not isinstance(value, wanted):
        raise MalformedJobError(column, None, f"write a JSON {example}")
    return value
