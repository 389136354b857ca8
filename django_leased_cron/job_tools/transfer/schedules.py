"""Schedules as JSON: ``{"crontab": {"minute": "30", …}}``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo
from decimal import Decimal
from typing import Any, Final

from django.utils import timezone
from django_celery_beat.models import ClockedSchedule, CrontabSchedule, IntervalSchedule, SolarSchedule

from django_leased_cron.core.occurrence import format_instant
from django_leased_cron.core.planning_inputs import COLUMNS, PlanningInputs
from django_leased_cron.core.recurrence import ClockedRecurrence
from django_leased_cron.core.schedule import parse_instant, parse_schedule
from django_leased_cron.job_tools.instants import read_instant, to_column
from django_leased_cron.solar import CelerySolarCalculator

_FIELDS: Final = {
    "interval": ("every", "period"),
    "crontab": ("minute", "hour", "day_of_week", "day_of_month", "month_of_year", "timezone"),
    "solar": ("event", "latitude", "longitude"),
    "clocked": ("clocked_time",),
}
_MODELS: Final[Mapping[str, Any]] = {
    "interval": IntervalSchedule,
    "crontab": CrontabSchedule,
    "solar": SolarSchedule,
    "clocked": ClockedSchedule,
}
KINDS: Final = tuple(_FIELDS)


def read_schedule(value: object) -> Mapping[str, Mapping[str, Any]]:
    """Return a schedule with all its fields, by the rules that the scheduler plans by.

    Raises:
        ValueError: it does not have the shape of one.
        MalformedJobError: it cannot be planned.
    """
    if not isinstance(value, Mapping) or len(value) != 1 or not isinstance(next(iter(value.values())), Mapping):
        message = f"choose one of {', '.join(KINDS)}, with its fields"
        raise ValueError(message)
    [(kind, given)] = value.items()
    if kind not in _FIELDS:
        message = f"{kind!r} is none of {', '.join(KINDS)}"
        raise ValueError(message)
    unknown = [key for key in given if key not in _FIELDS[kind]]
    if unknown:
        message = f"{kind} has no field {', '.join(map(repr, unknown))}; its fields are {', '.join(_FIELDS[kind])}"
        raise ValueError(message)
    complete = {name: given[name] if name in given else _find_default(kind, name) for name in _FIELDS[kind]}
    return {kind: _complete(kind, {name: _to_text(name, field) for name, field in complete.items()})}


def describe_inputs(inputs: PlanningInputs, *, storage_zone: tzinfo) -> Mapping[str, Mapping[str, Any]]:
    """Return the schedules that a job's row names, as :func:`read_schedule` takes them; a proper job has one.

    Raises:
        MalformedJobError: the time of a clocked one cannot be read.
    """
    schedules = {
        kind: {name: inputs[_input_name(kind, name)] for name in names}
        for kind, names in _FIELDS.items()
        if inputs[f"{kind}_id"]
    }
    if "clocked" in schedules:
        at_ms = parse_instant("clocked_time", inputs["clocked_time"], storage_zone=storage_zone)
        schedules["clocked"] = {"clocked_time": format_instant(at_ms)}
    return schedules


def find_or_create_row(schedule: Mapping[str, Mapping[str, Any]], *, alias: str) -> dict[str, int | None]:
    """Return the foreign keys of a job with this schedule; rows that other jobs share are never changed."""
    [(kind, fields)] = schedule.items()
    values = {name: _to_column(name, value, alias=alias) for name, value in fields.items()}
    model = _MODELS[kind]
    rows = model.objects.using(alias).filter(**values).order_by("pk").values_list("pk", flat=True)
    if not rows.exists():
        model.objects.using(alias).bulk_create([model(**values)])  # past signals that write to another database
    return {f"{each}_id": rows.first() if each == kind else None for each in KINDS}


def _complete(kind: str, texts: Mapping[str, str]) -> dict[str, Any]:
    columns = {_input_name(kind, name): text for name, text in texts.items()} | {f"{kind}_id": "1", "one_off": "0"}
    inputs = PlanningInputs(tuple(columns.get(column, "") for column in COLUMNS))
    recurrence = parse_schedule(
        inputs,
        storage_zone=timezone.get_current_timezone(),
        solar_calculator=CelerySolarCalculator(),  # nothing is computed here: its extra need not be installed
    ).recurrence
    for name, text in texts.items():
        longest = getattr(_MODELS[kind]._meta.get_field(name), "max_length", None)
        if longest is not None and len(text) > longest:
            message = f"{name} has {len(text)} characters, at most {longest} are possible"
            raise ValueError(message)
    match kind:
        case "interval":
            return {"every": int(texts["every"]), "period": texts["period"]}
        case "solar":
            return {"event": texts["event"]} | {name: float(texts[name]) for name in ("latitude", "longitude")}
        case "clocked" if isinstance(recurrence, ClockedRecurrence):
            return {"clocked_time": format_instant(recurrence.at_ms)}
        case _:
            return dict(texts)


def _input_name(kind: str, name: str) -> str:
    return name if name.startswith(kind) else f"{kind}_{name}"


def _find_default(kind: str, name: str) -> object:
    """Return what django-celery-beat's form would suggest; only crontabs have defaults."""
    if kind == "crontab":
        return str(CrontabSchedule._meta.get_field(name).get_default())
    message = f"{kind} needs {name}"
    raise ValueError(message)


def _to_text(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        message = f"{name} {value!r} is neither a text nor a number"
        raise ValueError(message)
    return str(value)


def _to_column(name: str, value: Any, *, alias: str) -> Any:
    if name == "clocked_time":
        return to_column(read_instant(value), alias)
    return Decimal(str(value)) if isinstance(value, float) else value
