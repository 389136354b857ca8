"""What is wrong, or will surprise, about a tenant's jobs: the answer of ``leased_jobs validate``.

Only jobs that are enabled are looked at: the others do nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from celery import Celery

from django_leased_cron.core.recurrence import CrontabRecurrence
from django_leased_cron.display import show_instant
from django_leased_cron.job_tools.clock_changes import find_surprises
from django_leased_cron.job_tools.herds import find_herd
from django_leased_cron.job_tools.upcoming import JobPlan, TenantPlans
from django_leased_cron.setting_values import suggestion

_MS: Final = timedelta(milliseconds=1)
_DAY_MS: Final = timedelta(days=1) // _MS
_YEAR_MS: Final = timedelta(days=366) // _MS
_NAMED: Final = 5


class ProblemKind(StrEnum):
    """What may be found."""

    MALFORMED = "malformed"
    """The row cannot be scheduled or sent."""
    UNKNOWN_TASK = "unknown_task"
    """No task of this name is registered in the project's Celery app."""
    EXPIRED = "expired"
    """Its ``expires`` has passed, and it is still switched on."""
    NEVER_DUE = "never_due"
    """Its schedule has no later time."""
    CLOCK_CHANGE = "clock_change"
    """Within a year, one of its local times does not exist or exists twice."""
    HERD = "herd"
    """Within a day, many jobs come due in one second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProblem:
    """One finding; ``job`` is empty where it is about many."""

    tenant: str
    job: str
    problem: ProblemKind
    detail: str


def list_task_names(app: Celery) -> Collection[str]:
    """Return the names of the app's tasks, once its task modules are imported as a worker imports them.

    Raises:
        ImportError: a task module cannot be imported.
    """
    app.loader.init_worker()
    app.finalize()
    return set(app.tasks)


def find_job_problems(plans: TenantPlans, *, task_names: Collection[str], herd_size: int) -> Iterator[JobProblem]:
    """Yield what is found, job by job, and herds at the end."""
    enabled = [plan for plan in plans.jobs if plan.enabled]
    for plan in enabled:
        for problem, detail in _examine(plan, task_names, now_ms=plans.now_ms):
            yield JobProblem(tenant=plans.tenant, job=plan.job, problem=problem, detail=detail)
    herd = find_herd(enabled, from_ms=plans.now_ms, until_ms=plans.now_ms + _DAY_MS, size=herd_size)
    if herd is not None:
        names = ", ".join(map(repr, herd.jobs[:_NAMED])) + (", …" if len(herd.jobs) > _NAMED else "")
        others = f"; {herd.seconds} such seconds within a day" if herd.seconds > 1 else ""
        detail = f"{len(herd.jobs)} jobs come due at {show_instant(herd.at_ms)}{others}. Spread them by jitter: {names}"
        yield JobProblem(tenant=plans.tenant, job="", problem=ProblemKind.HERD, detail=detail)


def _examine(plan: JobPlan, task_names: Collection[str], *, now_ms: int) -> Iterator[tuple[ProblemKind, str]]:
    if plan.task not in task_names:
        detail = f"task {plan.task!r} is not registered in this project's Celery app. "
        yield ProblemKind.UNKNOWN_TASK, detail + (suggestion(plan.task, task_names) or "Is its module imported?")
    schedule = plan.schedule
    if schedule is None:
        yield ProblemKind.MALFORMED, plan.error
        return
    if schedule.expires_at_ms is not None and schedule.expires_at_ms <= now_ms:
        yield (
            ProblemKind.EXPIRED,
            f"expires {show_instant(schedule.expires_at_ms)} has passed; switch it off or extend it",
        )
    elif plan.next_due_at_ms is None:
        yield ProblemKind.NEVER_DUE, "its schedule has no later time; switch it off or change its schedule"
    elif isinstance(schedule.recurrence, CrontabRecurrence):
        until_ms = now_ms + _YEAR_MS
        if schedule.expires_at_ms is not None:
            until_ms = min(until_ms, schedule.expires_at_ms)
        for detail in find_surprises(schedule.recurrence, from_ms=now_ms, until_ms=until_ms):
            yield ProblemKind.CLOCK_CHANGE, detail
