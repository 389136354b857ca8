"""``leased_jobs run``: ask for a run now, which the tenant's holder dispatches like any other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django.core.management.base import CommandParser

from django_leased_cron.conf import get_settings
from django_leased_cron.core.occurrence import format_instant
from django_leased_cron.job_tools.run_requests import RequestedRun, request_runs
from django_leased_cron.management.jobs.choice import add_names, choose_jobs, refuse_nobody
from django_leased_cron.management.jobs.subcommand import Answer, Options, Subcommand, present
from django_leased_cron.status import read_status
from django_leased_cron.tenants import Tenant

_HEADERS: Final = ("TENANT", "JOB", "REQUESTED", "TASK ID")


def _add_arguments(parser: CommandParser) -> None:
    add_names(parser, nargs="+", help="The jobs to run, enabled or not, paused or not.")


def _run(tenants: Sequence[Tenant], options: Options) -> Answer:
    refuse_nobody(tenants)
    chosen = choose_jobs(tenants, options["names"])
    runs = [run for tenant, jobs in chosen.items() for run in request_runs(tenant, jobs.values())]
    output = present(runs, options, headers=_HEADERS, describe=_describe, empty="The jobs are gone.")
    if runs and not options["json"]:
        output += f"\n\n{len(runs)} requested. Whoever holds the lease sends what is requested at its next poll."
    return Answer(
        output=output,
        warnings=_find_warnings(list(chosen)),
        failure="" if runs else "Nothing was requested: the jobs are gone by now.",
    )


def _describe(run: RequestedRun) -> Sequence[str]:
    return run.tenant, run.job, format_instant(run.due_at_ms), run.task_id


def _find_warnings(tenants: Sequence[Tenant]) -> Sequence[str]:
    status = read_status(tenants, lease_ttl_ms=get_settings().timing.lease_ttl_ms)
    return [
        f"Nobody schedules tenant {tenant.tenant!r} at present: what was requested is sent once"
        " manage.py run_leased_scheduler runs."
        for tenant in status.tenants
        if not tenant.live
    ]


RUN: Final = Subcommand(
    help="Run jobs once, now: the holder of the lease sends them like any other.",
    run=_run,
    add_arguments=_add_arguments,
)
