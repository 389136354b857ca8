"""``manage.py run_leased_scheduler``: start it on as many machines as you like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from django_leased_cron.conf import LeasedCronSettings, get_settings, with_overrides
from django_leased_cron.exceptions import ConfigurationError
from django_leased_cron.instrumentation import ensure_handler, log_event
from django_leased_cron.management.exit_codes import FOUND, misconfigured
from django_leased_cron.management.stop_signals import StopSignals
from django_leased_cron.self_check import find_all_problems, find_configuration_problems, find_warnings
from django_leased_cron.tenants import Tenant, get_tenant_source
from django_leased_cron.wiring import SupervisorBuilder


class Command(BaseCommand):
    help = (
        "Schedule the periodic tasks of the tenants whose leases this process gets. Run as many copies as you like: "
        "each due occurrence is dispatched once, by one of them."
    )
    # Run by the command itself: Django would exit with 1 for a configuration error.
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--tenant", action="append", default=[], metavar="KEY", help="Only this tenant; may be given repeatedly."
        )
        parser.add_argument("--lease-ttl", type=float, metavar="S", help="Seconds; overrides LEASE_TTL.")
        parser.add_argument("--heartbeat", type=float, metavar="S", help="Seconds; overrides HEARTBEAT.")
        parser.add_argument("--poll-interval", type=float, metavar="S", help="Seconds; overrides POLL_INTERVAL.")
        parser.add_argument("--metrics-port", type=int, metavar="N", help="Overrides METRICS_PORT.")
        parser.add_argument(
            "--check",
            action="store_true",
            help="Check settings, migrations, database and broker, print every problem, exit 0 or 1.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            settings = _read_settings(options)
            listed = get_tenant_source().list_tenants()
        except ConfigurationError as exc:
            if options["check"]:
                raise CommandError("\n".join(exc.problems), returncode=FOUND) from exc
            raise misconfigured(list(exc.problems)) from exc
        wanted: list[str] = options["tenant"]
        tenants = [tenant for tenant in listed if not wanted or tenant.key in wanted]
        self._warn(settings, listed, wanted)
        if options["check"]:
            self._check(settings, tenants)
            return
        problems = find_configuration_problems()
        if problems:
            raise misconfigured(problems)
        self._run(settings, tenants, wanted)

    def _check(self, settings: LeasedCronSettings, tenants: Sequence[Tenant]) -> None:
        problems = find_all_problems(settings, tenants)
        if problems:
            raise CommandError("\n".join(problems), returncode=FOUND)
        self.stdout.write("No errors found.")

    def _warn(self, settings: LeasedCronSettings, listed: Sequence[Tenant], wanted: Sequence[str]) -> None:
        for warning in find_warnings():
            self.stderr.write(warning)
        known = {tenant.key for tenant in listed}
        for key in wanted:
            if key not in known:
                known_keys = ", ".join(sorted(known)) or "none"
                self.stderr.write(f"Tenant {key!r} is not listed (listed: {known_keys}); it is waited for.")
        if not known:
            self.stderr.write("No tenants are listed: standing by.")
        if settings.metrics_port is not None:
            self.stderr.write("METRICS_PORT is set, but this version serves no metrics yet.")

    def _run(self, settings: LeasedCronSettings, tenants: Sequence[Tenant], wanted: Sequence[str]) -> None:
        ensure_handler()
        signals = StopSignals()
        signals.install()
        try:
            supervisor = SupervisorBuilder(
                settings, tenants, only=wanted, emit=log_event, list_tenants=get_tenant_source().list_tenants
            ).build()
        except ConfigurationError as exc:
            raise misconfigured(list(exc.problems)) from exc
        except ImportError as exc:
            raise misconfigured([f"A task module or the broker's library cannot be imported: {exc}"]) from exc
        connections.close_all()  # of this thread, which only waits from here on
        supervisor.run(signals.wait)


def _read_settings(options: dict[str, Any]) -> LeasedCronSettings:
    return with_overrides(
        get_settings(),
        lease_ttl_s=options["lease_ttl"],
        heartbeat_s=options["heartbeat"],
        poll_interval_s=options["poll_interval"],
        metrics_port=options["metrics_port"],
    )
