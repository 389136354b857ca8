"""Instants as people write them, and as Django's date-time columns take them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import connections
from django.utils import timezone

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read_instant(value: str | datetime) -> int:
    """Return the milliseconds since the Unix epoch; what names no zone is in the current one.

    Raises:
        ValueError: it is no instant.
    """
    try:
        at = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        if at.tzinfo is None:
            at = timezone.make_aware(at)
        return (at - _EPOCH) // timedelta(milliseconds=1)
    except (TypeError, ValueError, OverflowError) as exc:
        message = f"{value!r} is no date and time such as 2026-03-29T01:00:00Z"
        raise ValueError(message) from exc


def to_column(at_ms: int, alias: str) -> datetime:
    """Return what a date-time column of a database is to be given: local time where ``USE_TZ`` is off."""
    at = _EPOCH + timedelta(milliseconds=at_ms)
    if connections[alias].timezone is None:  # as Django has it there
        return timezone.make_naive(at, timezone.get_default_timezone())
    return at
