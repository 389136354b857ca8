"""The jobs that a tenant has, as definitions."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, Final

from django_leased_cron.core.occurrence import format_instant
from django_leased_cron.core.planning_inputs import PlanningInputs
from django_leased_cron.core.schedule import parse_instant
from django_leased_cron.exceptions import MalformedJobError
from django_leased_cron.job_tools.reading import JobRow, read_job_rows
from django_leased_cron.job_tools.tenant_sessions import open_sessions
from django_leased_cron.job_tools.transfer.definition import (
    PLAIN_COLUMNS,
    POLICY_COLUMNS,
    JobDefinition,
    read_definition,
    show_policy,
)
from django_leased_cron.job_tools.transfer.schedules import describe_inputs
from django_leased_cron.tenants import Tenant

_JSON: Final = {"args": list, "kwargs": dict, "headers": dict}
_POLICY_JOB: Final = "policy_job_id"
_COLUMNS: Final = {
    **{key: f"p.{column}" for key, column in PLAIN_COLUMNS.items()},
    **{column: f"p.{column}" for column in _JSON},
    **{column: f"jp.{column}" for column in POLICY_COLUMNS},
    "paused_until_ms": "jp.paused_until_ms",
    _POLICY_JOB: "jp.job_id",
}
_BOOLEANS: Final = ("enabled", "one_off", "paused")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownJob:
    """A job and its definition; without one, ``problems`` say why nobody could write it."""

    id: int
    name: str
    definition: JobDefinition | None
    problems: Sequence[str] = ()


def read_known_jobs(tenant: Tenant, *, job_ids: Collection[int] | None = None) -> Sequence[KnownJob]:
    """Return a tenant's jobs, or some of them, in order of their names.

    Raises:
        StoreError: its database does not answer, or lacks our tables.
    """
    with open_sessions(tenant) as pool:
        read = read_job_rows(pool, tenant, _COLUMNS, job_ids=job_ids)
    return [_decode(row, read.storage_zone) for row in read.jobs]


def _decode(row: JobRow, storage_zone: tzinfo) -> KnownJob:
    try:
        definition = read_definition(_describe(row, storage_zone))
    except MalformedJobError as exc:
        return KnownJob(id=row.id, name=row.name, definition=None, problems=[str(exc)])
    if isinstance(definition, JobDefinition):
        return KnownJob(id=row.id, name=row.name, definition=definition)
    return KnownJob(id=row.id, name=row.name, definition=None, problems=definition)


def _describe(row: JobRow, storage_zone: tzinfo) -> Mapping[str, object]:
    inputs = PlanningInputs.split(row.inputs)
    columns: dict[str, Any] = {name: bool(value) if name in _BOOLEANS else value for name, value in row.columns.items()}
    return {
        **{key: columns[key] for key in PLAIN_COLUMNS},
        **{column: _decode_json(column, columns[column]) for column in _JSON},
        **{column: _show_instant(column, inputs[column], storage_zone) for column in ("start_time", "expires")},
        "schedule": describe_inputs(inputs, storage_zone=storage_zone),
        "policy": show_policy(columns, columns["paused_until_ms"]) if columns[_POLICY_JOB] is not None else None,
    }


def _decode_json(column: str, text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError as exc:
        raise MalformedJobError(column, None, f"is not JSON ({exc})") from exc
    except RecursionError as exc:
        raise MalformedJobError(column, None, "is nested too deeply") from exc


def _show_instant(column: str, text: str, storage_zone: tzinfo) -> str | None:
    return format_instant(parse_instant(column, text, storage_zone=storage_zone)) if text else None
