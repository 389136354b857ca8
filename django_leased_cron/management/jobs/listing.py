"""``leased_jobs list``: each job and where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django_leased_cron.display import show_instant
from django_leased_cron.job_tools.listing import JobLine, read_jobs
from django_leased_cron.management.jobs.subcommand import Answer, Options, Subcommand, present
from django_leased_cron.tenants import Tenant

_HEADERS: Final = ("TENANT", "JOB", "ID", "TASK", "SCHEDULE", "NEXT DUE", "LAST DUE", "STATE")


def _run(tenants: Sequence[Tenant], options: Options) -> Answer:
    jobs = [job for tenant in tenants for job in read_jobs(tenant)]
    return Answer(output=present(jobs, options, headers=_HEADERS, describe=_describe, empty="No jobs."))


def _describe(job: JobLine) -> Sequence[str]:
    return (
        job.tenant,
        job.job,
        str(job.id),
        job.task,
        job.schedule,
        "-" if job.next_due_at_ms is None else show_instant(job.next_due_at_ms),
        "-" if job.last_due_at_ms is None else show_instant(job.last_due_at_ms),
        _describe_state(job),
    )


def _describe_state(job: JobLine) -> str:
    if not job.enabled:
        return "disabled"
    if job.error:
        return f"error: {job.error}"
    return "paused" if job.paused else "enabled"


LIST: Final = Subcommand(help="Print each job with its schedule, its next and last due time.", run=_run)
