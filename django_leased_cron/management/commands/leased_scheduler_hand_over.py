"""``manage.py leased_scheduler_hand_over``: move leases to other processes now."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_leased_cron.conf import get_settings
from django_leased_cron.core.clock import SystemClock, later
from django_leased_cron.exceptions import StoreError
from django_leased_cron.hand_over import HandOvers, open_leases
from django_leased_cron.management.exit_codes import FOUND
from django_leased_cron.management.jobs.choice import choose_tenants, refuse_nobody
from django_leased_cron.management.output import align
from django_leased_cron.management.project import list_tenants
from django_leased_cron.tenants import Tenant

_HEADERS: Final = ("TENANT", "OLD HOLDER", "NEW HOLDER")
_LOOK_S: Final = 0.05


class Command(BaseCommand):
    help = "Ask the holders of leases to hand over now; print the old and the new holder of each tenant."
    # Run by the command itself: Django would exit with 1 for a configuration error.
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--tenant", action="append", default=[], metavar="KEY", help="Only this tenant; may be given repeatedly."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        tenants = choose_tenants(list_tenants(), options["tenant"])
        refuse_nobody(tenants)
        try:
            with ExitStack() as cleanup:
                hand_overs = [
                    HandOvers(cleanup.enter_context(open_leases(alias)), keys)
                    for alias, keys in _group_keys(tenants).items()
                ]
                _wait_for_successors(hand_overs)
        except StoreError as exc:
            raise CommandError(str(exc), returncode=FOUND) from exc
        asked = {key: row.holder_id for each in hand_overs for key, row in each.asked.items()}
        successors = {key: holder_id for each in hand_overs for key, holder_id in each.successors.items()}
        if asked:
            rows = [(key, holder_id, successors.get(key, "nobody")) for key, holder_id in sorted(asked.items())]
            self.stdout.write(align(_HEADERS, rows))
        problems = [f"Tenant {tenant.key!r}: nobody holds its lease." for tenant in tenants if tenant.key not in asked]
        problems += [
            f"Tenant {key!r}: {holder_id} was asked, and nobody has taken the lease. Its log may say why."
            for key, holder_id in sorted(asked.items())
            if key not in successors
        ]
        if problems:
            raise CommandError("\n".join(problems), returncode=FOUND)


def _group_keys(tenants: Sequence[Tenant]) -> Mapping[str, Sequence[str]]:
    """Return the keys of the tenants by their databases."""
    keys: defaultdict[str, list[str]] = defaultdict(list)
    for tenant in tenants:
        keys[tenant.alias].append(tenant.key)
    return keys


def _wait_for_successors(hand_overs: Sequence[HandOvers]) -> None:
    """Wait until all leases have been taken, but no longer than the longest takeover lasts."""
    clock = SystemClock()
    deadline = later(clock.boot_time(), get_settings().timing.lease_ttl_s)
    waiting = hand_overs
    while waiting := [each for each in waiting if not each.are_done()]:
        if clock.boot_time() >= deadline:
            return
        threading.Event().wait(_LOOK_S)
