"""``leased_jobs validate``: what is wrong with jobs, or will surprise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from celery import current_app
from django.core.management.base import CommandParser

from django_leased_cron.job_tools.problems import JobProblem, find_job_problems, list_task_names
from django_leased_cron.job_tools.upcoming import read_plans
from django_leased_cron.management.exit_codes import misconfigured
from django_leased_cron.management.jobs.choice import count
from django_leased_cron.management.jobs.subcommand import Answer, Options, Subcommand, present
from django_leased_cron.tenants import Tenant

_HEADERS: Final = ("TENANT", "JOB", "PROBLEM", "DETAIL")


def _add_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "--herd", type=count, default=50, metavar="N", help="How many jobs in one second are a herd (50 if left out)."
    )


def _run(tenants: Sequence[Tenant], options: Options) -> Answer:
    try:
        task_names = list_task_names(current_app)
    except ImportError as exc:
        raise misconfigured([f"A task module cannot be imported: {exc}"]) from exc
    problems = [
        problem
        for tenant in tenants
        for problem in find_job_problems(read_plans(tenant), task_names=task_names, herd_size=options["herd"])
    ]
    return Answer(
        output=present(problems, options, headers=_HEADERS, describe=_describe, empty="No problems found."),
        failure=f"{len(problems)} found." if problems else "",
    )


def _describe(problem: JobProblem) -> Sequence[str]:
    return problem.tenant, problem.job or "(many)", str(problem.problem), problem.detail


VALIDATE: Final = Subcommand(
    help="Look for what is wrong with jobs or will surprise; exit 1 if anything is found.",
    run=_run,
    add_arguments=_add_arguments,
)
