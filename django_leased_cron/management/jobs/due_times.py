"""``leased_jobs next``: when jobs come due, and what is peculiar about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django.core.management.base import CommandParser

from django_leased_cron.core.occurrence import format_instant
from django_leased_cron.job_tools.upcoming import DueTime, find_due_times, read_plans
from django_leased_cron.management.jobs.choice import add_names, choose_jobs, count, instant
from django_leased_cron.management.jobs.subcommand import Answer, Options, Subcommand, present
from django_leased_cron.tenants import Tenant

_HEADERS: Final = ("TENANT", "JOB", "DUE", "LOCAL", "NOTE")


def _add_arguments(parser: CommandParser) -> None:
    add_names(parser, nargs="*", help="Only these jobs.")
    parser.add_argument(
        "-n", "--count", type=count, default=10, metavar="N", help="How many for each job (10 if left out)."
    )
    parser.add_argument("--after", type=instant, metavar="TIME", help="Only later than this; ISO 8601.")


def _run(tenants: Sequence[Tenant], options: Options) -> Answer:
    names: Sequence[str] = options["names"]
    if names:
        plans = [read_plans(tenant, job_ids=jobs.values()) for tenant, jobs in choose_jobs(tenants, names).items()]
    else:
        plans = [read_plans(tenant) for tenant in tenants]
    due_times = [
        due for plan in plans for due in find_due_times(plan, count=options["count"], after_ms=options["after"])
    ]
    empty = "Nothing comes due." if any(plan.jobs for plan in plans) else "No jobs."
    return Answer(output=present(due_times, options, headers=_HEADERS, describe=_describe, empty=empty))


def _describe(due: DueTime) -> Sequence[str]:
    return (
        due.tenant,
        due.job,
        "-" if due.due_at_ms is None else format_instant(due.due_at_ms),
        due.local or "-",
        due.note,
    )


NEXT: Final = Subcommand(help="Print when jobs come due next.", run=_run, add_arguments=_add_arguments)
