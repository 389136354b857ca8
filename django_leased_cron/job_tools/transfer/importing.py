"""Writing imported jobs: what is new or different, all of it or nothing.

Jobs are known by their names. What an entry does not mention keeps what it has. Rows are written past ``save()``: no
signal of django-celery-beat, which would write to another database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from django_leased_cron.job_tools.transfer.columns import to_columns
from django_leased_cron.job_tools.transfer.definition import (
    KEYS,
    JobDefinition,
    read_definition,
    to_entry,
    to_policy_columns,
)
from django_leased_cron.job_tools.transfer.entries import Entry
from django_leased_cron.job_tools.transfer.reading import KnownJob, read_known_jobs
from django_leased_cron.models import JobPolicy, JobState
from django_leased_cron.tenants import Tenant, entered

_TIMING: Final = frozenset({"schedule", "start_time", "enabled"})


class Action(StrEnum):
    """What becomes of a job."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedJob:
    """One job and what is, or would be, written of it."""

    tenant: str
    job: str
    action: Action
    changed: Sequence[str]
    """The keys that differ; of a new job, none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    known: KnownJob | None
    wanted: JobDefinition
    keys: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan:
    """What an import would write, tenant by tenant."""

    changes: Mapping[Tenant, Sequence[_Change]]

    def describe(self) -> Sequence[ImportedJob]:
        return [
            ImportedJob(
                tenant=tenant.key,
                job=change.wanted.job,
                action=_find_action(change),
                changed=change.keys if change.known else [],
            )
            for tenant, changes in self.changes.items()
            for change in changes
        ]


def plan_import(entries_by_tenant: Mapping[Tenant, Sequence[Entry]]) -> ImportPlan | list[str]:
    """Return what is to be written, or everything that is wrong with the entries.

    Raises:
        StoreError: a tenant's database does not answer, or lacks our tables.
    """
    changes: dict[Tenant, list[_Change]] = {}
    problems: list[str] = []
    for tenant, entries in entries_by_tenant.items():
        known = {job.name: job for job in read_known_jobs(tenant)}
        changes[tenant] = []
        seen: set[str] = set()
        for entry in entries:
            change = _plan_entry(entry, known)
            if isinstance(change, _Change) and change.wanted.job in seen:
                change = ["is there twice"]
            if isinstance(change, _Change):
                seen.add(change.wanted.job)
                changes[tenant].append(change)
            else:
                problems += [f"Tenant {tenant.key!r}, job {entry.name!r}: {problem}" for problem in change]
    return problems or ImportPlan(changes=changes)


def write_import(plan: ImportPlan) -> None:
    """Write it, in one transaction for each database; these are committed once all of them are written.

    Nothing fires for what came due before: a job that was never planned here has its new times from now on.
    """
    with ExitStack() as transactions:
        for tenant in plan.changes:
            transactions.enter_context(transaction.atomic(using=tenant.alias))
        for tenant, changes in plan.changes.items():
            with entered(tenant):
                _write_tenant(tenant.alias, [change for change in changes if change.keys])


def _plan_entry(entry: Entry, known: Mapping[str, KnownJob]) -> _Change | Sequence[str]:
    job = known.get(str(entry.document.get("job")))
    current = to_entry(job.definition) if job and job.definition else {}
    merged = {**current, **entry.document}
    policy, current_policy = entry.document.get("policy"), current.get("policy")
    if isinstance(policy, Mapping) and isinstance(current_policy, Mapping):
        merged["policy"] = {**current_policy, **policy}
    wanted = read_definition(merged)
    if not isinstance(wanted, JobDefinition):
        # What the source could not convert is missing for that reason, already told.
        return [*entry.problems, *(each for each in wanted if not (entry.problems and each.endswith(" is missing")))]
    if entry.problems:
        return entry.problems
    target = to_entry(wanted)
    keys = [key for key in KEYS if key not in current or current[key] != target[key]]
    return _Change(known=job, wanted=wanted, keys=keys)


def _find_action(change: _Change) -> Action:
    if change.known is None:
        return Action.CREATED
    return Action.UPDATED if change.keys else Action.UNCHANGED


def _write_tenant(alias: str, changes: Sequence[_Change]) -> None:
    jobs = PeriodicTask.objects.using(alias)
    created, retimed = [], []
    for change in changes:
        columns = to_columns(change.wanted, change.keys, alias=alias)
        if change.known is None:
            created.append(PeriodicTask(**columns))
        else:
            jobs.filter(pk=change.known.id).update(**columns, date_changed=timezone.now())
            if _TIMING.intersection(change.keys):
                retimed.append(change.known.id)
    jobs.bulk_create(created)
    _forget_last_runs(alias, retimed)
    # Not every database says which ids it gave.
    ids = {name: job.pk for name, job in jobs.in_bulk([job.name for job in created], field_name="name").items()}
    for change in changes:
        if "policy" in change.keys:
            job_id = change.known.id if change.known else ids[change.wanted.job]
            _write_policy(alias, job_id, change.wanted.policy)


def _forget_last_runs(alias: str, job_ids: Sequence[int]) -> None:
    """Keep a scheduler's first term ever from going on from runs of another timetable."""
    planned = JobState.objects.using(alias).filter(job_id=OuterRef("pk"))
    jobs = PeriodicTask.objects.using(alias).filter(pk__in=job_ids, last_run_at__isnull=False)
    jobs.exclude(Exists(planned)).update(last_run_at=None)


def _write_policy(alias: str, job_id: int, policy: Mapping[str, Any] | None) -> None:
    policies = JobPolicy.objects.using(alias)
    if policy is None:
        policies.filter(job_id=job_id).delete()
    else:
        policies.update_or_create(job_id=job_id, defaults=to_policy_columns(policy))
