"""Pausing and resuming jobs and tenants, as the policies' forms do: what comes due meanwhile is recorded as skipped."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from django.db import transaction

from django_leased_cron.models import JobPolicy, TenantPolicy
from django_leased_cron.tenants import Tenant, entered

_RUNNING: Final[dict[str, Any]] = {
    "paused": False,
    "paused_by": "",
    "paused_reason": "",
    "paused_until_ms": None,
}
"""Of a pause that is over nothing is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseOrder:
    """Who pauses, why, and until when (``None``: until resumed)."""

    by: str
    reason: str
    until_ms: int | None


def pause_jobs(tenant: Tenant, job_ids: Collection[int], order: PauseOrder) -> None:
    """Pause jobs, all or none; what else their policies say stays."""
    with entered(tenant), transaction.atomic(using=tenant.alias):
        for job_id in job_ids:
            JobPolicy.objects.using(tenant.alias).update_or_create(job_id=job_id, defaults=_columns(order))


def pause_tenant(tenant: Tenant, order: PauseOrder) -> None:
    """Pause all jobs of a tenant, also those that are added later."""
    with entered(tenant):
        TenantPolicy.objects.using(tenant.alias).update_or_create(tenant_key=tenant.key, defaults=_columns(order))


def resume_jobs(tenant: Tenant, job_ids: Collection[int]) -> set[int]:
    """Resume jobs; return those that were paused. Nothing fires for the time before."""
    paused = JobPolicy.objects.using(tenant.alias).filter(job_id__in=job_ids, paused=True)
    with entered(tenant), transaction.atomic(using=tenant.alias):
        were_paused = set(paused.values_list("job_id", flat=True))
        paused.update(**_RUNNING)
    return were_paused


def resume_tenant(tenant: Tenant) -> bool:
    """Resume a tenant; return whether it was paused. Jobs that are paused themselves stay so."""
    paused = TenantPolicy.objects.using(tenant.alias).filter(tenant_key=tenant.key, paused=True)
    with entered(tenant):
        return paused.update(**_RUNNING) > 0


def _columns(order: PauseOrder) -> dict[str, Any]:
    return {
        "paused": True,
        "paused_by": order.by,
        "paused_reason": order.reason,
        "paused_until_ms": order.until_ms,
    }
