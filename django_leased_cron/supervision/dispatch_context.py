"""What a tenant's dispatchers share from term to term."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django_leased_cron.core.adoption import EpochSightings
from django_leased_cron.core.claiming import ClaimRules
from django_leased_cron.core.clock import Clock
from django_leased_cron.core.database_clock import DatabaseClockEstimate
from django_leased_cron.core.events import Emit
from django_leased_cron.core.outbox import Outbox
from django_leased_cron.core.timing import LeaseTiming
from django_leased_cron.supervision.beside import RunBeside, run_in_thread
from django_leased_cron.supervision.confirmer import Confirmer


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchContext:
    """The tenant's ports and rules; of what a term learned, only the confirmer and the sightings outlive it."""

    outbox: Outbox
    confirmer: Confirmer
    sightings: EpochSightings
    estimate: DatabaseClockEstimate
    rules: ClaimRules
    timing: LeaseTiming
    batch_size: int
    history_retention_s: float
    clock: Clock
    emit: Emit
    run_beside: RunBeside = run_in_thread
    """Runs what is done while a batch is being published."""
    edits_are_announced: bool = False
    """The standby looks for edits of all tenants of a database at once; else each tenant looks for itself."""
    count_tenants: Callable[[], int] = lambda: 1
    """How many tenants this process may hold: what each does now and then, it does the more seldom."""
