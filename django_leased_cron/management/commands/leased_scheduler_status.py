"""``manage.py leased_scheduler_status``: who schedules what, and what is late."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_leased_cron.conf import get_settings
from django_leased_cron.core.occurrence import format_instant
from django_leased_cron.display import show_distance, show_duration, show_instant
from django_leased_cron.management.exit_codes import FOUND, misconfigured
from django_leased_cron.management.output import align, to_document
from django_leased_cron.management.project import list_tenants
from django_leased_cron.status import ProcessStatus, Status, TenantStatus, find_problems, read_status

_NO_PROBLEMS = "No problems: every tenant has a live holder, and nothing is overdue for too long."


class Command(BaseCommand):
    help = "Show, for each tenant, who holds its lease, what comes next and what is late; and the live processes."
    # Run by the command itself: Django would exit with 1 for a configuration error.
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="Print JSON, for scripts.")
        parser.add_argument(
            "--check",
            action="store_true",
            help="Exit 1 if a tenant has no live holder or a job is overdue for too long: for probes and alerts.",
        )
        parser.add_argument(
            "--max-overdue",
            type=float,
            default=60.0,
            metavar="S",
            help="How long is too long, in seconds (default 60).",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        max_overdue_s: float = options["max_overdue"]
        if math.isnan(max_overdue_s) or max_overdue_s < 0:
            raise misconfigured([f"--max-overdue {max_overdue_s}: give a number of seconds, 0 or more."])
        tenants = list_tenants()
        status = read_status(tenants, lease_ttl_ms=get_settings().timing.lease_ttl_ms)
        problems = find_problems(status, max_overdue_s=max_overdue_s)
        if status.tenants or not status.unreadable:
            self.stdout.write(_as_json(status) if options["json"] else _as_text(status))
        if status.unreadable or (options["check"] and problems):
            raise CommandError("\n".join(problems), returncode=FOUND)
        if not options["json"]:
            self.stdout.write("\n" + "\n".join([*(problems or [_NO_PROBLEMS]), *status.slowly_edited]))


def _as_json(status: Status) -> str:
    document = {
        "now": format_instant(status.now_ms),
        "tenants": [to_document(tenant) for tenant in status.tenants],
        "processes": [to_document(process) for process in status.processes],
    }
    return json.dumps(document, indent=2)


def _as_text(status: Status) -> str:
    tenants = align(_TENANT_HEADERS, [_describe_tenant(tenant, status.now_ms) for tenant in status.tenants])
    processes = align(_PROCESS_HEADERS, [_describe_process(process, status.now_ms) for process in status.processes])
    return "\n\n".join(
        [
            f"{show_instant(status.now_ms)} by the database's clock",
            tenants if status.tenants else "No tenants.",
            processes if status.processes else "No live scheduler process.",
        ]
    )


_TENANT_HEADERS = ("TENANT", "HOLDER", "EPOCH", "SINCE", "EXPIRES", "JOBS", "NEXT DUE", "OVERDUE", "UNCONFIRMED")


def _describe_tenant(tenant: TenantStatus, now_ms: int) -> Sequence[str]:
    holder = tenant.holder_id or "nobody"
    expires_in_ms = None if tenant.expires_in_s is None else round(tenant.expires_in_s * 1000)
    overdue = f"{tenant.overdue}, by {show_duration(round(tenant.max_overdue_s * 1000))}" if tenant.overdue else "0"
    return (
        f"{tenant.tenant} (paused)" if tenant.paused else tenant.tenant,
        holder if tenant.live or not tenant.holder_id else f"{holder} (not live)",
        str(tenant.epoch),
        _describe_instant(tenant.acquired_at_ms, now_ms),
        "-" if expires_in_ms is None else show_distance(now_ms + expires_in_ms, now_ms=now_ms),
        str(tenant.jobs),
        _describe_instant(tenant.next_due_at_ms, now_ms),
        overdue,
        str(tenant.unconfirmed),
    )


_PROCESS_HEADERS = ("PROCESS", "HOST", "PID", "VERSION", "STARTED", "SEEN", "TENANTS", "")


def _describe_process(process: ProcessStatus, now_ms: int) -> Sequence[str]:
    return (
        process.holder_id,
        process.host,
        str(process.pid),
        process.version,
        show_distance(process.started_at_ms, now_ms=now_ms),
        show_distance(process.last_seen_at_ms, now_ms=now_ms),
        ", ".join(process.tenants) or "all",
        "stopping" if process.draining else "",
    )


def _describe_instant(at_ms: int | None, now_ms: int) -> str:
    return "-" if at_ms is None else f"{show_instant(at_ms)} ({show_distance(at_ms, now_ms=now_ms)})"
