"""The jobs of a tenant and where they stand: the answer of ``leased_jobs list``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final

from django_leased_cron.core.planning_inputs import PlanningInputs
from django_leased_cron.display import describe_schedule
from django_leased_cron.exceptions import MalformedJobError
from django_leased_cron.job_tools.reading import read_job_rows
from django_leased_cron.job_tools.tenant_sessions import open_sessions
from django_leased_cron.tenants import Tenant

_COLUMNS: Final = {
    "task": "p.task",
    "next_due_at_ms": "s.next_due_at_ms",
    "last_due_at_ms": "s.last_due_at_ms",
    "error": "COALESCE(s.error, '')",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """One job. ``paused``: what comes due now is skipped, because the job or its tenant is paused."""

    tenant: str
    job: str
    id: int
    task: str
    schedule: str
    enabled: bool
    paused: bool
    next_due_at_ms: int | None
    last_due_at_ms: int | None
    error: str


def read_jobs(tenant: Tenant) -> Sequence[JobLine]:
    """Return a tenant's jobs in order of their names.

    Raises:
        StoreError: its database does not answer, or lacks our tables.
    """
    with open_sessions(tenant) as pool:
        read = read_job_rows(pool, tenant, _COLUMNS)
    return [
        JobLine(
            tenant=tenant.key,
            job=row.name,
            id=row.id,
            schedule=_describe_schedule(row.inputs, read.storage_zone),
            enabled=row.enabled,
            paused=row.paused_until_ms > read.now_ms,
            **row.columns,
        )
        for row in read.jobs
    ]


def _describe_schedule(inputs: str, storage_zone: tzinfo) -> str:
    try:
        return describe_schedule(PlanningInputs.split(inputs), storage_zone=storage_zone)
    except MalformedJobError as exc:
        return exc.reason
