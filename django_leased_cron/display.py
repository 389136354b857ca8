"""What machines keep as integers and raw columns, as people read it.

Nothing here can fail on what a row holds: a malformed job must be shown, not hide the others.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from django.utils import timezone

from django_leased_cron.core.occurrence import format_instant
from django_leased_cron.core.planning_inputs import PlanningInputs
from django_leased_cron.core.schedule import parse_instant
from django_leased_cron.exceptions import MalformedJobError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS: Final = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
_UNITS: Final = (("days", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))


def to_datetime(at_ms: int, *, zone: tzinfo | None = None) -> datetime:
    """Return an instant as an aware datetime, in the current time zone if none is named."""
    at = _EPOCH + timedelta(milliseconds=min(max(at_ms, 0), _LAST_MS))
    return at.astimezone(zone or timezone.get_current_timezone())


def show_instant(at_ms: int, *, zone: tzinfo | None = None) -> str:
    """Return ``2026-03-29 03:00:00 CEST``, with milliseconds where there are any."""
    at = to_datetime(at_ms, zone=zone)
    fraction = f".{at_ms % 1000:03d}" if at_ms % 1000 else ""
    return f"{at:%Y-%m-%d %H:%M:%S}{fraction} {at:%Z}"


def show_duration(duration_ms: int) -> str:
    """Return ``12 ms``, ``3.2 s``, ``75 s``, ``4 min``, ``30 h`` or ``12 days``."""
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    if duration_ms < 10_000:
        return f"{duration_ms / 1000:.1f} s"
    # The largest unit of which there are two or more: "75 s" says more than "1 min".
    unit, unit_ms = next(((unit, unit_ms) for unit, unit_ms in _UNITS if duration_ms >= 2 * unit_ms), _UNITS[-1])
    return f"{duration_ms // unit_ms} {unit}"


def show_distance(at_ms: int, *, now_ms: int) -> str:
    """Return how far away an instant is: ``in 4 min``, ``12 s ago``."""
    if at_ms >= now_ms:
        return f"in {show_duration(at_ms - now_ms)}"
    return f"{show_duration(now_ms - at_ms)} ago"


def describe_schedule(inputs: PlanningInputs, *, storage_zone: tzinfo) -> str:
    """Return a job's schedule in a few words, from the columns as the database has them.

    Args:
        storage_zone: the zone of instants that do not name their own.
    """
    kinds = [kind for kind in ("interval", "crontab", "solar", "clocked") if inputs[f"{kind}_id"]]
    if len(kinds) != 1:
        return f"{' and '.join(kinds)}: choose one" if kinds else "no schedule"
    [kind] = kinds
    match kind:
        case "interval":
            words = _describe_interval(every=inputs["interval_every"], period=inputs["interval_period"])
        case "crontab":
            words = _join(inputs, kind, "minute", "hour", "day_of_month", "month_of_year", "day_of_week", "timezone")
        case "solar":
            words = _join(inputs, kind, "event", "latitude", "longitude")
        case _:
            words = _describe_clocked(inputs["clocked_time"], storage_zone)
    if not words:
        return f"{kind} schedule {inputs[f'{kind}_id']} no longer exists"
    once = kind != "clocked" and inputs["one_off"].lower() in {"1", "t", "true"}
    return f"{words}, once" if once else words


def _describe_interval(*, every: str, period: str) -> str:
    if not every and not period:
        return ""
    return f"every {period.removesuffix('s')}" if every == "1" else f"every {every} {period}"


def _describe_clocked(text: str, storage_zone: tzinfo) -> str:
    try:
        return f"clocked at {format_instant(parse_instant('clocked_time', text, storage_zone=storage_zone))}"
    except MalformedJobError:
        return f"clocked at {text}" if text else ""


def _join(inputs: PlanningInputs, kind: str, *columns: str) -> str:
    """Return the columns of a schedule in this order, or nothing where its row is gone."""
    values = [inputs[f"{kind}_{column}"] for column in columns]
    return f"{kind} {' '.join(value or '-' for value in values)}" if any(values) else ""
