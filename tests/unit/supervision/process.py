"""One scheduling process over stand-ins: everything that ``wiring`` builds, with nothing outside it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC
from typing import Any, TypeVar

from django_leased_cron.core.adoption import EpochSightings
from django_leased_cron.core.claiming import ClaimRules
from django_leased_cron.core.clock import BootTime, later
from django_leased_cron.core.database_clock import DatabaseClockEstimate
from django_leased_cron.core.events import Emit
from django_leased_cron.core.lease import FREE
from django_leased_cron.core.occurrence import CatchUp, Delivery
from django_leased_cron.core.outbox import TermKey, TermLost
from django_leased_cron.core.timing import LeaseTiming
from django_leased_cron.exceptions import StoreError
from django_leased_cron.supervision.confirmer import Confirmer
from django_leased_cron.supervision.dispatch_context import DispatchContext
from django_leased_cron.supervision.dispatcher import TermDispatcher
from django_leased_cron.supervision.outage import OutageWatch
from django_leased_cron.supervision.seat import TenantSeat
from django_leased_cron.supervision.shares import FairShare, ShareGiver
from django_leased_cron.testing import EventLog, FakeClock, InMemoryLeaseStore, RecordingPublisher
from tests.unit.core.job_rows import every
from tests.unit.supervision.in_memory_outbox import InMemoryOutbox

TENANT = "acme"
HOURLY = every(3600)
TIMING = LeaseTiming(lease_ttl_s=30, heartbeat_s=10, poll_interval_s=0.5, rescue_after_s=1, publish_timeout_s=5)
Result = TypeVar("Result")
MOST_STEPS = 5000
"""More than any of these tests needs: a dispatcher that asks for more is spinning."""


def build_shares(leases: InMemoryLeaseStore, *, emit: Emit, holder_id: str = "me", tenants: int = 1) -> ShareGiver:
    """Return what a process of so many tenants gives away."""
    fair_share = FairShare(holder_id=holder_id, lease_ttl_ms=TIMING.lease_ttl_ms, count_tenants=lambda: tenants)
    return ShareGiver(leases, fair_share, emit=emit)


class Process:
    """A process that schedules one tenant.

    One built ``beside`` another shares its clock and its leases, and the outbox too if it schedules the same tenant.
    """

    def __init__(
        self,
        *,
        holder_id: str = "me",
        tenant_key: str = TENANT,
        batch_size: int = 500,
        beside: Process | None = None,
    ) -> None:
        self.holder_id = holder_id
        self.tenant_key = tenant_key
        self.clock: FakeClock = beside.clock if beside else FakeClock()
        self.leases: InMemoryLeaseStore = beside.leases if beside else InMemoryLeaseStore(self.clock)
        self.outbox: InMemoryOutbox = (
            beside.outbox if beside and beside.tenant_key == tenant_key else InMemoryOutbox(self.leases, self.clock)
        )
        self.publisher = RecordingPublisher(self.clock)
        self.events = EventLog()
        self.proofs: list[tuple[int, BootTime]] = []
        self.turns = 0
        self.wakes = 0
        self.wakes_by: list[BootTime] = []
        self.on_wake: Callable[[], None] = lambda: None
        self.on_beside: Callable[[], None] = lambda: None
        outage = OutageWatch(alias="default", doing="recording runs", emit=self.events.append)
        self.context = DispatchContext(
            outbox=self.outbox,
            confirmer=Confirmer(self.outbox, clock=self.clock, outage=outage),
            sightings=EpochSightings(publish_timeout_s=TIMING.publish_timeout_s),
            estimate=DatabaseClockEstimate(),
            rules=ClaimRules(
                tenant_key=tenant_key,
                storage_zone=UTC,
                missed_after_ms=TIMING.missed_after_ms,
                catch_up=CatchUp.ONCE,
                catch_up_window_ms=86_400_000,
                delivery=Delivery.AT_LEAST_ONCE,
            ),
            timing=TIMING,
            batch_size=batch_size,
            history_retention_s=7 * 86_400,
            clock=self.clock,
            emit=self.events.append,
            run_beside=self._run_beside,
        )
        self.seat = TenantSeat(
            self.context,
            leases=self.leases,
            tenant_key=tenant_key,
            holder_id=holder_id,
            wake=self._note_wake,
            wake_by=self.wakes_by.append,
        )

    @property
    def now_ms(self) -> int:
        return self.leases.now_ms

    def take_over(self) -> int:
        """Take the lease, whoever holds it, and note what was seen; return the epoch."""
        seen = self.leases.read([self.tenant_key]).leases[self.tenant_key]
        epoch = seen.epoch + 1
        self.leases.change(self.tenant_key, holder_id=self.holder_id, epoch=epoch)
        self.context.sightings.note(seen.epoch, at=self.clock.boot_time())
        self.context.sightings.note(epoch, at=self.clock.boot_time())
        return epoch

    def begin_term(self) -> TermDispatcher:
        """Take the lease and return the term's dispatcher, before its first step."""
        term = TermKey(tenant_key=self.tenant_key, holder_id=self.holder_id, epoch=self.take_over())
        return TermDispatcher(self.context, term=term, proved=self._note_proof, turned=self._note_turn)

    def settle(self) -> TermDispatcher:
        """Begin a term and let it come to rest."""
        dispatcher = self.begin_term()
        self.run(dispatcher)
        return dispatcher

    def plan(self, *job_ids: int, due_in_s: float = 0.0, inputs: str = HOURLY, **columns: Any) -> None:
        """Add jobs that are planned already: once an hour, due now, unless said otherwise."""
        for job_id in job_ids:
            self.outbox.plan(job_id, inputs, due_at_ms=self.now_ms + round(due_in_s * 1000), **columns)

    def sent(self) -> list[int]:
        """Return the jobs that the broker has a message of, in its order."""
        return [publication.headers["leased_cron"]["job_id"] for publication in self.publisher.accepted]

    def count(self, act: str) -> int:
        """Return how often the outbox was asked for an act."""
        return self.outbox.acts.done.count(act)

    def lose_lease(self) -> None:
        """Have the lease taken by nobody in particular."""
        self.leases.change(self.tenant_key, holder_id=FREE)

    def step(self, dispatcher: TermDispatcher) -> BootTime:
        """Step once, in a term that is to go on."""
        again_at = dispatcher.step(self.publisher)
        assert not isinstance(again_at, TermLost)
        return again_at

    def run(self, dispatcher: TermDispatcher, *, seconds: float = 0.0) -> None:
        """Step each time the dispatcher asks for, for so long; without seconds: while it asks for one at once."""
        end = later(self.clock.boot_time(), seconds)
        for _ in range(MOST_STEPS):
            again_at = self.step(dispatcher)
            self.clock.advance(max(0.0, min(again_at, end) - self.clock.boot_time()))
            if again_at > end:
                return
        raise AssertionError("the dispatcher does not come to rest")

    def _run_beside(self, call: Callable[[], Result]) -> Future[Result]:
        """Do at once what is to be done beside a publication: the stand-ins are for one thread."""
        self.on_beside()
        future: Future[Result] = Future()
        try:
            future.set_result(call())
        except StoreError as exc:
            future.set_exception(exc)
        return future

    def _note_proof(self, epoch: int, asked_at: BootTime) -> None:
        self.proofs.append((epoch, asked_at))

    def _note_turn(self) -> None:
        self.turns += 1

    def _note_wake(self) -> None:
        self.wakes += 1
        self.on_wake()
