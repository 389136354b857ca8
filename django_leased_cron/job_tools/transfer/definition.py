"""A job with its schedule and policy as JSON has them: one shape for export, comparison and import."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, cast

from django.core.exceptions import ValidationError
from django_celery_beat.models import PeriodicTask

from django_leased_cron.core.occurrence import format_instant
from django_leased_cron.exceptions import MalformedJobError
from django_leased_cron.job_tools.instants import read_instant
from django_leased_cron.job_tools.transfer.schedules import read_schedule
from django_leased_cron.models import JobPolicy
from django_leased_cron.setting_values import suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDefinition:
    """What people decide about a job. Equal definitions are the same job, however its columns are written.

    Instants are texts such as ``2026-03-29T01:00:00.000Z``.
    """

    job: str
    task: str
    schedule: Mapping[str, Mapping[str, Any]]
    """One of ``interval``, ``crontab``, ``solar`` and ``clocked``, with its fields."""
    enabled: bool = True
    args: Sequence[Any] = field(default_factory=list)
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, Any] = field(default_factory=dict)
    queue: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    priority: int | None = None
    expires: str | None = None
    expire_seconds: int | None = None
    start_time: str | None = None
    one_off: bool = False
    description: str = ""
    policy: Mapping[str, Any] | None = None
    """``None``: the job has none, and the settings count."""


KEYS: Final = tuple(each.name for each in fields(JobDefinition))
PLAIN_COLUMNS: Final = {
    "job": "name",
    "task": "task",
    "enabled": "enabled",
    "queue": "queue",
    "exchange": "exchange",
    "routing_key": "routing_key",
    "priority": "priority",
    "expire_seconds": "expire_seconds",
    "one_off": "one_off",
    "description": "description",
}
"""Keys whose values are in the job's row as they stand, and in which column."""
_KEY_BY_COLUMN: Final = {column: key for key, column in PLAIN_COLUMNS.items()}
POLICY_COLUMNS: Final = (
    "catch_up",
    "catch_up_window_s",
    "overlap",
    "longest_run_s",
    "jitter_s",
    "delivery",
    "paused",
    "paused_by",
    "paused_reason",
)
_PAUSED_UNTIL: Final = "paused_until"
_MOST_LEVELS: Final = 100
"""Of arguments and headers. How many can be written as JSON depends on Python's version and on who calls."""


def read_definition(entry: Mapping[str, object]) -> JobDefinition | list[str]:
    """Return the job that an entry describes, or everything that is wrong with it."""
    missing = [key for key in ("job", "task", "schedule") if entry.get(key) in (None, "")]
    given = {key: value for key, value in entry.items() if key not in missing}
    problems = [*_find_unknown(entry, KEYS), *(f"{key} is missing" for key in missing)]
    values: dict[str, Any] = {}
    for key, read in _READERS.items():
        if key in given:
            try:
                values[key] = read(given[key])
            except MalformedJobError as exc:
                problems.append(str(exc))
            except ValueError as exc:
                problems.append(f"{key}: {exc}")
    columns = {column: given[key] for key, column in PLAIN_COLUMNS.items() if key in given}
    cleaned, refused = _clean(PeriodicTask, columns)
    problems += refused
    values |= {key: cleaned[column] for key, column in PLAIN_COLUMNS.items() if column in cleaned}
    return problems or JobDefinition(**values)


def to_entry(definition: JobDefinition) -> dict[str, Any]:
    """Return the JSON of a job, with all its keys."""
    return asdict(definition)


def show_policy(columns: Mapping[str, Any], paused_until_ms: int | None) -> dict[str, Any]:
    """Return a policy's columns as JSON has them."""
    paused_until = None if paused_until_ms is None else format_instant(paused_until_ms)
    return {name: columns[name] for name in POLICY_COLUMNS} | {_PAUSED_UNTIL: paused_until}


def to_policy_columns(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a policy that :func:`read_definition` has read."""
    paused_until = policy[_PAUSED_UNTIL]
    paused_until_ms = None if paused_until is None else read_instant(paused_until)
    return {name: policy[name] for name in POLICY_COLUMNS} | {"paused_until_ms": paused_until_ms}


def _read_policy(value: object) -> Mapping[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        message = "must be an object, or null for none"
        raise ValueError(message)
    problems = _find_unknown(value, (*POLICY_COLUMNS, _PAUSED_UNTIL))
    defaults = {name: getattr(JobPolicy(), name) for name in POLICY_COLUMNS}
    columns, refused = _clean(JobPolicy, defaults | {key: value[key] for key in POLICY_COLUMNS if key in value})
    problems += refused
    if not problems and columns["catch_up_window_s"] is not None and columns["catch_up_window_s"] < 0:
        problems.append("catch_up_window_s must be 0 or more")
    if problems:
        raise ValueError("; ".join(problems))
    paused_until = _read_optional_instant(value.get(_PAUSED_UNTIL))
    return columns | {_PAUSED_UNTIL: paused_until}


def _find_unknown(given: Mapping[str, object], known: Sequence[str]) -> list[str]:
    return [f"there is no option {key!r}. {suggestion(key, known)}".rstrip(" .") for key in given if key not in known]


def _clean(model: Any, columns: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return columns as their model's fields take them, or what the fields say against them."""
    row = model(**columns)
    others = {each.name for each in model._meta.fields} - set(columns)
    try:
        row.clean_fields(exclude=others)
    except ValidationError as exc:
        complaints = exc.message_dict.items()
        return {}, [f"{_KEY_BY_COLUMN.get(column, column)}: {' '.join(texts)}" for column, texts in complaints]
    cleaned = {name: getattr(row, name) for name in columns}
    # What is blank is written in one way in each column.
    blank = {name: None if model._meta.get_field(name).null else "" for name in columns}
    return {name: blank[name] if value in (None, "") else value for name, value in cleaned.items()}, []


def _read_json(wanted: type) -> Callable[[object], Any]:
    def read(value: object) -> Any:
        if value is None:
            return wanted()
        if _is_nested_deeper(value, than=_MOST_LEVELS):
            message = f"is nested too deeply: more than {_MOST_LEVELS} levels"
            raise ValueError(message)
        try:
            plain = json.loads(json.dumps(value))
        except (TypeError, ValueError) as exc:
            message = f"cannot be written as JSON ({exc})"
            raise ValueError(message) from exc
        if not isinstance(plain, wanted):
            message = f"must be a JSON {'array' if wanted is list else 'object'}"
            raise ValueError(message)
        return plain

    return read


def _is_nested_deeper(value: object, *, than: int) -> bool:
    """Return whether a JSON value has more levels; looks level by level, so that none is too deep for this itself."""
    level = _find_containers([value])
    for _ in range(than):
        level = [
            inner
            for outer in level
            for inner in _find_containers(outer.values() if isinstance(outer, Mapping) else outer)
        ]
    return bool(level)


def _find_containers(values: Iterable[object]) -> list[Any]:
    return [value for value in values if isinstance(value, Mapping | list | tuple)]


def _read_optional_instant(value: object) -> str | None:
    return None if value is None else format_instant(read_instant(cast(Any, value)))


_READERS: Final[Mapping[str, Callable[[object], Any]]] = {
    "schedule": read_schedule,
    "args": _read_json(list),
    "kwargs": _read_json(dict),
    "headers": _read_json(dict),
    "expires": _read_optional_instant,
    "start_time": _read_optional_instant,
    "policy": _read_policy,
}
