"""``manage.py leased_jobs``: the jobs of all tenants, for people and scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_leased_cron.display import show_instant
from django_leased_cron.exceptions import StoreError
from django_leased_cron.job_listing import JobLine, read_jobs
from django_leased_cron.management.exit_codes import FOUND, misconfigured
from django_leased_cron.management.output import align, to_document
from django_leased_cron.management.project import list_tenants
from django_leased_cron.tenants import Tenant


class Command(BaseCommand):
    help = "Look at the jobs of all tenants, or of those named."
    # Run by the command itself: Django would exit with 1 for a configuration error.
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        subcommands = parser.add_subparsers(required=True, metavar="SUBCOMMAND")
        listing = subcommands.add_parser("list", help="Print each job with its schedule, its next and last due time.")
        _add_common_arguments(listing)
        listing.set_defaults(run=self._list)

    def handle(self, *args: Any, **options: Any) -> None:
        tenants = _choose(list_tenants(), options["tenant"])
        try:
            options["run"](tenants, as_json=options["json"])
        except StoreError as exc:
            raise CommandError(str(exc), returncode=FOUND) from exc

    def _list(self, tenants: Sequence[Tenant], *, as_json: bool) -> None:
        jobs = [job for tenant in tenants for job in read_jobs(tenant)]
        if as_json:
            self.stdout.write(json.dumps([to_document(job) for job in jobs], indent=2))
        elif jobs:
            self.stdout.write(align(_HEADERS, [_describe(job) for job in jobs]))
        else:
            self.stdout.write("No jobs.")


def _add_common_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "--tenant", action="append", default=[], metavar="KEY", help="Only this tenant; may be given repeatedly."
    )
    parser.add_argument("--json", action="store_true", help="Print JSON, for scripts.")


def _choose(listed: Sequence[Tenant], keys: Sequence[str]) -> Sequence[Tenant]:
    """Return the tenants named, or all, in order of their keys."""
    tenants = {tenant.key: tenant for tenant in sorted(listed, key=lambda tenant: tenant.key)}
    known = ", ".join(map(repr, tenants)) or "none"
    unknown = [f"There is no tenant {key!r}. Listed are: {known}." for key in keys if key not in tenants]
    if unknown:
        raise misconfigured(unknown)
    return [tenant for key, tenant in tenants.items() if not keys or key in keys]


_HEADERS = ("TENANT", "JOB", "ID", "TASK", "SCHEDULE", "NEXT DUE", "LAST DUE", "STATE")


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
