"""The jobs of a tenant as raw columns.

What a model field cannot load (the name of a zone that does not exist) must not hide the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, Final

from django_leased_cron.core.recurrence import END_MS
from django_leased_cron.database import find_storage_zone
from django_leased_cron.database.session import SessionPool
from django_leased_cron.database.tables import JOB, JOB_POLICY, STATE, TENANT_POLICY
from django_leased_cron.job_tools.tenant_sessions import open_sessions, read_clock
from django_leased_cron.outbox.job_rows import JOB_WITH_SCHEDULE, planning_inputs
from django_leased_cron.tenants import Tenant

NOT_PAUSED: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job. ``paused_until_ms``: what comes due before it is skipped, because the job or its tenant is paused."""

    id: int
    name: str
    enabled: bool
    inputs: str
    paused_until_ms: int
    columns: Mapping[str, Any]
    """What else was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRows:
    """Jobs in order of their names, and when they were read by the database's clock."""

    now_ms: int
    storage_zone: tzinfo
    jobs: Sequence[JobRow]


def read_job_rows(
    pool: SessionPool, tenant: Tenant, columns: Mapping[str, str], *, job_ids: Collection[int] | None = None
) -> JobRows:
    """Read a tenant's jobs, or some of them.

    Args:
        columns: a name for each expression over the job ``p``, its schedule's row, its state ``s`` and its policy
            ``jp``.

    Raises:
        StoreError: the database does not answer, lacks our tables or cannot tell the time.
    """
    dialect = pool.dialect
    chosen = "1 = 1" if job_ids is None else dialect.any_of("p.id", "job_ids")
    select = f"""SELECT p.id, p.name, p.enabled, {planning_inputs(dialect)},
        CASE WHEN jp.paused THEN COALESCE(jp.paused_until_ms, {END_MS}) END,
        (SELECT MAX(COALESCE(tp.paused_until_ms, {END_MS})) FROM {TENANT_POLICY} AS tp
            WHERE tp.tenant_key = %(tenant_key)s AND tp.paused),
        {", ".join(["1", *columns.values()])}
        FROM {JOB_WITH_SCHEDULE} LEFT JOIN {STATE} AS s ON s.job_id = p.id
        LEFT JOIN {JOB_POLICY} AS jp ON jp.job_id = p.id WHERE {chosen}"""
    parameters: dict[str, Any] = {"tenant_key": tenant.key}
    if job_ids:
        parameters["job_ids"] = dialect.id_list(job_ids)
    with pool.transaction(reading=True) as session:
        now_ms = read_clock(session)
        rows = [] if job_ids is not None and not job_ids else session.fetch(select, parameters)
    jobs = [_decode(row, list(columns)) for row in rows]
    return JobRows(
        now_ms=now_ms,
        storage_zone=find_storage_zone(tenant.alias),
        jobs=sorted(jobs, key=lambda job: (job.name, job.id)),
    )


def read_job_ids(tenant: Tenant) -> Mapping[str, int]:
    """Return the ids of a tenant's jobs by their names.

    Raises:
        StoreError: the database does not answer.
    """
    with open_sessions(tenant) as pool, pool.transaction(reading=True) as session:
        return dict(session.fetch(f"SELECT name, id FROM {JOB}"))


def _decode(row: tuple[Any, ...], names: Sequence[str]) -> JobRow:
    job_id, name, enabled, inputs, job_pause, tenant_pause, _, *values = row
    return JobRow(
        id=job_id,
        name=name,
        enabled=bool(enabled),
        inputs=inputs,
        paused_until_ms=max(job_pause or NOT_PAUSED, tenant_pause or NOT_PAUSED),
        columns=dict(zip(names, values, strict=True)),
    )
