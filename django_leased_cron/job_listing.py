"""The jobs of a tenant and where they stand: the answer of ``leased_jobs list``.

Read as raw columns: what a model field cannot load (the name of a zone that does not exist) must not hide the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django_leased_cron.core.planning_inputs import PlanningInputs
from django_leased_cron.database import build_dialect
from django_leased_cron.database.dialect import Dialect
from django_leased_cron.database.session import Session
from django_leased_cron.database.tables import JOB_POLICY, STATE, TENANT_POLICY
from django_leased_cron.display import describe_schedule
from django_leased_cron.outbox import find_storage_zone
from django_leased_cron.outbox.job_rows import JOB_WITH_SCHEDULE, planning_inputs
from django_leased_cron.tenants import Tenant


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
    dialect, zone = build_dialect(tenant.alias), find_storage_zone(tenant.alias)
    session = Session(tenant.alias, dialect)
    try:
        with session.transaction(reading=True):
            rows = session.fetch(_select_jobs(dialect), {"tenant_key": tenant.key})
    finally:
        session.close()
    jobs = []
    for inputs, enabled, pauses, *columns in rows:
        values: dict[str, Any] = dict(zip(_COLUMNS, columns, strict=True))
        schedule = describe_schedule(PlanningInputs.split(inputs), storage_zone=zone)
        jobs.append(JobLine(tenant=tenant.key, schedule=schedule, enabled=bool(enabled), paused=bool(pauses), **values))
    return sorted(jobs, key=lambda job: (job.job, job.id))


_COLUMNS = {
    "id": "p.id",
    "job": "p.name",
    "task": "p.task",
    "next_due_at_ms": "s.next_due_at_ms",
    "last_due_at_ms": "s.last_due_at_ms",
    "error": "COALESCE(s.error, '')",
}


def _select_jobs(dialect: Dialect) -> str:
    now = dialect.now_ms
    return f"""SELECT {planning_inputs(dialect)}, p.enabled,
        (SELECT COUNT(*) FROM {JOB_POLICY} AS jp
            WHERE jp.job_id = p.id AND jp.paused AND COALESCE(jp.paused_until_ms, {now} + 1) > {now})
        + (SELECT COUNT(*) FROM {TENANT_POLICY} AS tp
            WHERE tp.tenant_key = %(tenant_key)s AND tp.paused AND COALESCE(tp.paused_until_ms, {now} + 1) > {now}),
        {", ".join(_COLUMNS.values())}
        FROM {JOB_WITH_SCHEDULE} LEFT JOIN {STATE} AS s ON s.job_id = p.id"""
