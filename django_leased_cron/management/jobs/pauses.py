"""``leased_jobs pause`` and ``resume``: what comes due meanwhile is recorded as skipped, and fires nothing later."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.core.management.base import CommandParser

from django_leased_cron.display import show_instant
from django_leased_cron.job_tools.pausing import PauseOrder, pause_jobs, pause_tenant, resume_jobs, resume_tenant
from django_leased_cron.job_tools.tenant_sessions import open_sessions, read_clock
from django_leased_cron.management.exit_codes import misconfigured
from django_leased_cron.management.jobs.choice import Chosen, add_names, choose_jobs, instant, refuse_nobody
from django_leased_cron.management.jobs.subcommand import Answer, Options, Subcommand, present
from django_leased_cron.models import Pause
from django_leased_cron.tenants import Tenant

_HEADERS: Final = ("TENANT", "JOB", "PAUSED", "UNTIL")


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseLine:
    """A job that was paused or resumed; without one, the whole tenant."""

    tenant: str
    job: str | None
    paused: bool
    until_at_ms: int | None = None


def _add_common_arguments(parser: CommandParser) -> None:
    add_names(parser, nargs="*", help="These jobs.")
    parser.add_argument("--all", action="store_true", help="The whole tenant instead, jobs to come included.")


def _add_pause_arguments(parser: CommandParser) -> None:
    _add_common_arguments(parser)
    parser.add_argument("--reason", default="", metavar="R", help="Why; people see it.")
    parser.add_argument("--until", type=instant, metavar="TIME", help="Resume by itself then; ISO 8601.")


def _pause(tenants: Sequence[Tenant], options: Options) -> Answer:
    chosen = _choose(tenants, options)
    order = PauseOrder(by=_find_user(), reason=options["reason"], until_ms=options["until"])
    _check(order, list(tenants if chosen is None else chosen))
    if chosen is None:
        for tenant in tenants:
            pause_tenant(tenant, order)
        lines = [_line(tenant, None, order) for tenant in tenants]
    else:
        for tenant, jobs in chosen.items():
            pause_jobs(tenant, jobs.values(), order)
        lines = [_line(tenant, name, order) for tenant, jobs in chosen.items() for name in jobs]
    return Answer(output=_present(lines, options, empty=""))


def _resume(tenants: Sequence[Tenant], options: Options) -> Answer:
    chosen = _choose(tenants, options)
    if chosen is None:
        lines = [_line(tenant, None) for tenant in tenants if resume_tenant(tenant)]
    else:
        lines = []
        for tenant, jobs in chosen.items():
            resumed = resume_jobs(tenant, jobs.values())
            lines += [_line(tenant, name) for name, job_id in jobs.items() if job_id in resumed]
    empty = "Nothing was paused."
    return Answer(output=_present(lines, options, empty=empty), failure="" if lines else empty)


def _choose(tenants: Sequence[Tenant], options: Options) -> Chosen | None:
    """Return the jobs named; ``None``: whole tenants."""
    if bool(options["names"]) == options["all"]:
        raise misconfigured(["Name jobs, or say --all for the whole tenant; not both."])
    refuse_nobody(tenants)
    return None if options["all"] else choose_jobs(tenants, options["names"])


def _check(order: PauseOrder, tenants: Sequence[Tenant]) -> None:
    longest = _longest("paused_reason")
    if len(order.reason) > longest:
        raise misconfigured([f"--reason has {len(order.reason)} characters; at most {longest} are possible."])
    for tenant in tenants if order.until_ms is not None else ():
        with open_sessions(tenant) as pool, pool.transaction(reading=True) as session:
            now_ms = read_clock(session)
        if order.until_ms is not None and order.until_ms <= now_ms:
            raise misconfigured([f"--until {show_instant(order.until_ms)} is in the past; give a later time, or none."])


def _find_user() -> str:
    try:
        return getpass.getuser()[: _longest("paused_by")]
    except (ImportError, KeyError, OSError):  # a container whose user has no name
        return ""


def _longest(column: str) -> int:
    field: Any = Pause._meta.get_field(column)
    return int(field.max_length)


def _line(tenant: Tenant, job: str | None, order: PauseOrder | None = None) -> PauseLine:
    return PauseLine(
        tenant=tenant.key, job=job, paused=order is not None, until_at_ms=None if order is None else order.until_ms
    )


def _present(lines: Sequence[PauseLine], options: Options, *, empty: str) -> str:
    return present(lines, options, headers=_HEADERS, describe=_describe, empty=empty)


def _describe(line: PauseLine) -> Sequence[str]:
    until = "resumed" if line.until_at_ms is None else show_instant(line.until_at_ms)
    job = "(all)" if line.job is None else line.job
    return (line.tenant, job, "yes", until) if line.paused else (line.tenant, job, "no", "-")


PAUSE: Final = Subcommand(
    help="Pause jobs, or a whole tenant: what comes due meanwhile is recorded as skipped.",
    run=_pause,
    add_arguments=_add_pause_arguments,
)
RESUME: Final = Subcommand(
    help="Resume jobs, or a whole tenant: nothing fires for the time before.",
    run=_resume,
    add_arguments=_add_common_arguments,
)
