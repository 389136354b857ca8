"""When a tenant's jobs come due: the answer of ``leased_jobs next``.

A job that is planned comes due when its plan says; one that was edited since, or never planned, when a scheduler would
plan it if it looked now, by the scheduler's own rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from django.utils import timezone

from django_leased_cron.conf import get_settings
from django_leased_cron.core.jitter import jittered
from django_leased_cron.core.outbox import ChangeKind, PlanWrite
from django_leased_cron.core.planning import Planning
from django_leased_cron.core.recurrence import CrontabRecurrence, IntervalRecurrence
from django_leased_cron.core.schedule import JobSchedule, next_due
from django_leased_cron.database.session import SessionPool
from django_leased_cron.database.tables import LEASE
from django_leased_cron.display import show_duration, to_datetime
from django_leased_cron.exceptions import MalformedJobError
from django_leased_cron.job_tools.clock_changes import describe_reading
from django_leased_cron.job_tools.reading import JobRow, read_job_rows
from django_leased_cron.job_tools.tenant_sessions import open_sessions
from django_leased_cron.outbox import DatabaseOutbox
from django_leased_cron.solar import build_solar_calculator
from django_leased_cron.tenants import Tenant

_AT_ONCE: Final = 500
_UNPLANNED: Final = (ChangeKind.DELETED, ChangeKind.FINISHED)
_COLUMNS: Final = {
    "task": "p.task",
    "jitter_s": "COALESCE(jp.jitter_s, 0)",
    "next_due_at_ms": "s.next_due_at_ms",
    "last_due_at_ms": "s.last_due_at_ms",
    "error": "COALESCE(s.error, '')",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """One job and its next due time; ``schedule`` is missing where ``error`` says what is wrong with it."""

    job: str
    id: int
    task: str
    enabled: bool
    paused_until_ms: int
    jitter_s: int
    schedule: JobSchedule | None
    next_due_at_ms: int | None
    has_been_due: bool = False
    is_planned: bool
    """A scheduler has planned it; else the next due time is what it would plan now."""
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantPlans:
    """A tenant's jobs in order of their names, by its database's clock."""

    tenant: str
    now_ms: int
    jobs: Sequence[JobPlan]


@dataclass(frozen=True, slots=True, kw_only=True)
class DueTime:
    """One due time of one job; of a job that comes due no more, the one line that says why."""

    tenant: str
    job: str
    due_at_ms: int | None
    local: str | None
    note: str


def read_plans(tenant: Tenant, *, job_ids: Collection[int] | None = None) -> TenantPlans:
    """Read a tenant's jobs, or some of them, with their plans.

    Raises:
        StoreError: its database does not answer, or lacks our tables.
    """
    with open_sessions(tenant) as pool:
        read = read_job_rows(pool, tenant, _COLUMNS, job_ids=job_ids)
        planning = Planning(
            storage_zone=read.storage_zone,
            goes_on_from_last_run=_was_never_scheduled(pool, tenant.key),
            solar_calculator=build_solar_calculator(),
            seen_within_ms=get_settings().timing.missed_after_ms,
        )
        fresh = _plan_changes(pool, planning, now_ms=read.now_ms)
    return TenantPlans(
        tenant=tenant.key,
        now_ms=read.now_ms,
        jobs=[_assess(row, fresh.get(row.id), planning) for row in read.jobs],
    )


def find_due_times(plans: TenantPlans, *, count: int, after_ms: int | None) -> Iterator[DueTime]:
    """Yield each job's next due times, at most ``count`` of each.

    Args:
        after_ms: only later ones; ``None``: from the plan's next one on, which is in the past where it is overdue.
    """
    for plan in plans.jobs:
        if not plan.enabled:
            yield _explain(plans, plan, "disabled")
        elif plan.next_due_at_ms is None:
            yield _explain(plans, plan, f"never: {_find_reason(plan)}")
        else:
            yield from (
                _describe(plans, plan, due_at_ms) for due_at_ms in islice(iterate_due_times(plan, after_ms), count)
            )


def iterate_due_times(plan: JobPlan, after_ms: int | None) -> Iterator[int]:
    """Yield the due times of a job that has a next one, without end where its schedule has none."""
    due_at_ms, schedule = plan.next_due_at_ms, plan.schedule
    if due_at_ms is None or schedule is None:
        return
    if schedule.one_off:
        if after_ms is None or due_at_ms > after_ms:
            yield due_at_ms
        return
    base_ms = due_at_ms
    following = due_at_ms if after_ms is None else next_due(schedule, after_ms=after_ms, base_ms=base_ms)
    while following is not None:
        yield following
        following = next_due(schedule, after_ms=following, base_ms=base_ms)


def _was_never_scheduled(pool: SessionPool, tenant_key: str) -> bool:
    lease = pool.dialect.shared(LEASE)
    rows = pool.glance(f"SELECT epoch FROM {lease} WHERE tenant_key = %(tenant_key)s", {"tenant_key": tenant_key})
    return all(epoch == 0 for (epoch,) in rows)


def _plan_changes(pool: SessionPool, planning: Planning, *, now_ms: int) -> Mapping[int, PlanWrite]:
    """Return what a scheduler's pass over all jobs would write now, by job."""
    settings = get_settings()
    outbox = DatabaseOutbox(
        pool,
        lease_ttl_ms=settings.timing.lease_ttl_ms,
        missed_after_ms=settings.timing.missed_after_ms,
        catch_up=settings.catch_up,
    )
    writes: dict[int, PlanWrite] = {}
    after_job_id = 0
    while True:
        changes = outbox.find_changes(after_job_id=after_job_id, limit=_AT_ONCE)
        writes |= {
            change.job_id: planning.plan(change, now_ms=now_ms) for change in changes if change.kind not in _UNPLANNED
        }
        if len(changes) < _AT_ONCE:
            return writes
        after_job_id = max(change.job_id for change in changes)


def _assess(row: JobRow, fresh: PlanWrite | None, planning: Planning) -> JobPlan:
    columns = row.columns
    schedule, error = None, fresh.error if fresh else columns["error"]
    if row.enabled and not error:
        try:
            schedule = planning.parse(row.inputs)
        except MalformedJobError as exc:  # planned on another machine, which knows more time zones or the sun
            error = str(exc)
    return JobPlan(
        job=row.name,
        id=row.id,
        task=columns["task"],
        enabled=row.enabled,
        paused_until_ms=row.paused_until_ms,
        jitter_s=columns["jitter_s"],
        schedule=schedule,
        next_due_at_ms=None if error else fresh.next_due_at_ms if fresh else columns["next_due_at_ms"],
        has_been_due=columns["last_due_at_ms"] is not None,
        is_planned=fresh is None,
        error=error,
    )


def _find_reason(plan: JobPlan) -> str:
    if plan.error:
        return plan.error
    if plan.is_planned and plan.has_been_due and plan.schedule is not None and plan.schedule.one_off:
        return "it is a one-off and has had its run"
    return "its schedule has no later time"


def _explain(plans: TenantPlans, plan: JobPlan, note: str) -> DueTime:
    return DueTime(tenant=plans.tenant, job=plan.job, due_at_ms=None, local=None, note=note)


def _describe(plans: TenantPlans, plan: JobPlan, due_at_ms: int) -> DueTime:
    recurrence = plan.schedule.recurrence if plan.schedule else None
    zone = recurrence.zone if isinstance(recurrence, CrontabRecurrence) else timezone.get_current_timezone()
    local = to_datetime(due_at_ms, zone=zone)
    return DueTime(
        tenant=plans.tenant,
        job=plan.job,
        due_at_ms=due_at_ms,
        local=local.isoformat(timespec="milliseconds" if due_at_ms % 1000 else "seconds"),
        note="; ".join(_find_notes(plans, plan, due_at_ms)),
    )


def _find_notes(plans: TenantPlans, plan: JobPlan, due_at_ms: int) -> Iterator[str]:
    schedule = plan.schedule
    if schedule is not None and isinstance(schedule.recurrence, CrontabRecurrence):
        note = describe_reading(schedule.recurrence, due_at_ms)
        if note:
            yield note
    if plan.paused_until_ms > max(due_at_ms, plans.now_ms):
        yield "paused"
    if due_at_ms == plan.next_due_at_ms and due_at_ms <= plans.now_ms:
        yield "overdue"
    delay_ms = jittered(due_at_ms, job_id=plan.id, jitter_s=plan.jitter_s) - due_at_ms
    if delay_ms:
        yield f"jitter: fires {show_duration(delay_ms)} later"
    if not plan.is_planned and _is_counted_from_now(plans, plan):
        yield "counted from now: no scheduler has planned it yet"


def _is_counted_from_now(plans: TenantPlans, plan: JobPlan) -> bool:
    recurrence = plan.schedule.recurrence if plan.schedule else None
    return isinstance(recurrence, IntervalRecurrence) and plan.next_due_at_ms == plans.now_ms + recurrence.every_ms
