"""A job's timetable: its recurrence between its start and its end, and how it is read from the rows.

Deliberate differences from ``celery beat``: a start time in the future is a slot of an interval; the first firing of
an interval without one is a whole interval after its anchor; an expiry is exclusive (nothing comes due at or after it).
A clocked job with a later start time fires at its start time, as beat does.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Final, assert_never
from zoneinfo import ZoneInfo

from django_leased_cron.core.crontab import parse_crontab
from django_leased_cron.core.planning_inputs import COLUMNS, PlanningInputs
from django_leased_cron.core.recurrence import (
    END_MS,
    ClockedRecurrence,
    CrontabRecurrence,
    IntervalRecurrence,
    Recurrence,
)
from django_leased_cron.core.solar import EVENTS, SolarCalculator, SolarRecurrence
from django_leased_cron.exceptions import MalformedJobError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECONDS_BY_PERIOD: Final = {
    "days": 86_400_000_000,
    "hours": 3_600_000_000,
    "minutes": 60_000_000,
    "seconds": 1_000_000,
    "microseconds": 1,
}
_SHORTEST_INTERVAL_MS: Final = 1000
_DEGREES: Final = Decimal("0.000001")  # as the column has it; each database writes trailing zeros its own way
_BOOLEANS: Final = {"0": False, "f": False, "false": False, "1": True, "t": True, "true": True}
_KINDS: Final = ("interval", "crontab", "solar", "clocked")
ZONE_MARK: Final = " @"
"""Between an instant and the zone on whose clocks it was stored, where that is not UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSchedule:
    """When a job comes due: the slots of its recurrence from ``start_at_ms`` on and before ``expires_at_ms``."""

    recurrence: Recurrence
    start_at_ms: int | None = None
    expires_at_ms: int | None = None
    one_off: bool = False


def has_same_timetable(one: JobSchedule, other: JobSchedule) -> bool:
    """Return whether a job re-scheduled from one to the other keeps its next slot: only expiry and one-off differ."""
    return one.recurrence == other.recurrence and one.start_at_ms == other.start_at_ms


def next_due(schedule: JobSchedule, *, after_ms: int, base_ms: int) -> int | None:
    """Return the first slot strictly later than ``after_ms``, or ``None`` if there is none.

    Args:
        base_ms: any slot of an interval's cadence, such as the previous one; other recurrences ignore it.
    """
    if schedule.start_at_ms is not None:
        after_ms = max(after_ms, schedule.start_at_ms - 1)
    due_at_ms: int | None
    match schedule.recurrence:
        case CrontabRecurrence() | SolarRecurrence() as recurrence:
            due_at_ms = recurrence.next_after(after_ms)
        case IntervalRecurrence() as interval:
            due_at_ms = interval.next_after(after_ms, base_ms=base_ms)
        case ClockedRecurrence(at_ms=at_ms):
            clocked_at_ms = at_ms if schedule.start_at_ms is None else max(at_ms, schedule.start_at_ms)
            due_at_ms = clocked_at_ms if clocked_at_ms > after_ms else None
        case _:
            assert_never(schedule.recurrence)
    end_ms = END_MS if schedule.expires_at_ms is None else min(END_MS, schedule.expires_at_ms)
    return due_at_ms if due_at_ms is not None and due_at_ms < end_ms else None


def first_due(schedule: JobSchedule, *, now_ms: int, anchor_ms: int | None) -> int | None:
    """Return the first slot later than now of a job that is planned anew: it never fires for the past.

    Args:
        anchor_ms: what an interval without a start time counts from, else from now. It gives the phase only: one in
            the future (a clock's mistake) does not keep the job waiting.
    """
    base_ms = next((at_ms for at_ms in (schedule.start_at_ms, anchor_ms) if at_ms is not None), now_ms)
    return next_due(schedule, after_ms=now_ms, base_ms=base_ms)


def parse_schedule(
    inputs: PlanningInputs, *, storage_zone: tzinfo, solar_calculator: SolarCalculator | None = None
) -> JobSchedule:
    """Parse what the rows of a job and of its schedule say.

    Args:
        storage_zone: the zone of instants that do not name their own.
        solar_calculator: what solar schedules need, if it is there.

    Raises:
        MalformedJobError: the job cannot be planned; says which column to correct, and how.
    """
    kind = _find_kind(inputs)
    recurrence: Recurrence
    match kind:
        case "interval":
            recurrence = _parse_interval(inputs)
        case "crontab":
            recurrence = _parse_crontab(inputs)
        case "clocked":
            recurrence = ClockedRecurrence(
                at_ms=parse_instant("clocked_time", inputs["clocked_time"], storage_zone=storage_zone)
            )
        case _:
            recurrence = _parse_solar(inputs, solar_calculator)
    return JobSchedule(
        recurrence=recurrence,
        start_at_ms=_parse_optional_instant(inputs, "start_time", storage_zone=storage_zone),
        expires_at_ms=_parse_optional_instant(inputs, "expires", storage_zone=storage_zone),
        one_off=_parse_boolean(inputs, "one_off"),
    )


def _find_kind(inputs: PlanningInputs) -> str:
    kinds = [kind for kind in _KINDS if inputs[f"{kind}_id"]]
    if len(kinds) != 1:
        raise MalformedJobError("schedule", ", ".join(kinds), f"choose exactly one of {', '.join(_KINDS)}")
    [kind] = kinds
    key_column = f"{kind}_id"
    if not any(inputs[column] for column in COLUMNS if column.startswith(f"{kind}_") and column != key_column):
        reason = f"this {kind} schedule no longer exists; choose another one"
        raise MalformedJobError(key_column, inputs[key_column], reason)
    return kind


def _parse_interval(inputs: PlanningInputs) -> IntervalRecurrence:
    text, period = inputs["interval_every"], inputs["interval_period"]
    if period not in _MICROSECONDS_BY_PERIOD:
        raise MalformedJobError("interval_period", period, f"must be one of {', '.join(_MICROSECONDS_BY_PERIOD)}")
    try:
        every_ms, rest = divmod(int(text) * _MICROSECONDS_BY_PERIOD[period], 1000)
    except ValueError as exc:
        raise MalformedJobError("interval_every", text, "must be a whole number") from exc
    if every_ms < _SHORTEST_INTERVAL_MS:
        raise MalformedJobError("interval_every", text, f"every {text} {period} is too often; 1 second is the shortest")
    if rest:
        raise MalformedJobError("interval_every", text, "must be a whole number of milliseconds")
    if every_ms >= END_MS:
        raise MalformedJobError("interval_every", text, f"every {text} {period} is past the end of the calendar")
    return IntervalRecurrence(every_ms=every_ms)


def _parse_crontab(inputs: PlanningInputs) -> CrontabRecurrence:
    crontab = parse_crontab(
        minute=inputs["crontab_minute"],
        hour=inputs["crontab_hour"],
        day_of_week=inputs["crontab_day_of_week"],
        day_of_month=inputs["crontab_day_of_month"],
        month_of_year=inputs["crontab_month_of_year"],
    )
    key = inputs["crontab_timezone"]
    try:
        zone = ZoneInfo(key)
    except (LookupError, ValueError, OSError) as exc:  # not found, no zone's name, a folder of zones
        raise MalformedJobError("crontab_timezone", key, "no such time zone on this machine") from exc
    return CrontabRecurrence(crontab=crontab, zone=zone)


def _parse_solar(inputs: PlanningInputs, calculator: SolarCalculator | None) -> SolarRecurrence:
    event = inputs["solar_event"]
    if event not in EVENTS:
        raise MalformedJobError("solar_event", event, f"must be one of {', '.join(EVENTS)}")
    latitude = _parse_degrees(inputs, "solar_latitude", most=90)
    longitude = _parse_degrees(inputs, "solar_longitude", most=180)
    if calculator is None:
        reason = (
            "solar schedules need an extra: pip install 'django-leased-cron[solar]' wherever a scheduler runs,"
            " start it again"
        )
        raise MalformedJobError("solar_id", inputs["solar_id"], reason)
    return SolarRecurrence(event=event, latitude=latitude, longitude=longitude, calculator=calculator)


def _parse_degrees(inputs: PlanningInputs, column: str, *, most: int) -> Decimal:
    try:
        degrees = Decimal(inputs[column]).quantize(_DEGREES)
        if abs(degrees) <= most:
            return degrees
    except ArithmeticError:  # no number, none that is finite
        pass
    raise MalformedJobError(column, inputs[column], f"must be a number of degrees from {-most} to {most}")


def _parse_optional_instant(inputs: PlanningInputs, column: str, *, storage_zone: tzinfo) -> int | None:
    return parse_instant(column, inputs[column], storage_zone=storage_zone) if inputs[column] else None


def parse_instant(column: str, text: str, *, storage_zone: tzinfo) -> int:
    """Return an instant that the database wrote as text, in milliseconds; ``MalformedJobError`` for anything else."""
    stamp, is_marked, zone = text.partition(ZONE_MARK)
    try:
        at = datetime.fromisoformat(stamp)
        storage_zone = ZoneInfo(zone) if is_marked else storage_zone
    except (LookupError, ValueError, OSError) as exc:
        raise MalformedJobError(column, text, "must be a date and time, YYYY-MM-DD HH:MM:SS") from exc
    if at.tzinfo is None:
        at = at.replace(tzinfo=storage_zone)
    return (at - _EPOCH) // timedelta(milliseconds=1)


def reading_ms(at_ms: int, *, storage_zone: tzinfo) -> int:
    """Return what an instant reads like in the database: in milliseconds, its text taken for UTC.

    One before 1970, some people's "never", reads like 1970, and one past the end of the calendar like itself.
    """
    at_ms = max(at_ms, 0)
    try:
        offset = (_EPOCH + timedelta(milliseconds=at_ms)).astimezone(storage_zone).utcoffset() or timedelta(0)
    except OverflowError:
        return at_ms
    return at_ms + offset // timedelta(milliseconds=1)


def _parse_boolean(inputs: PlanningInputs, column: str) -> bool:
    try:
        return _BOOLEANS[inputs[column].lower()]
    except KeyError as exc:
        raise MalformedJobError(column, inputs[column], "must be true or false") from exc
