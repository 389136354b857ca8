"""The process as a whole: start the loops, wait, and end in the order that hands over at once (I9)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from django_leased_cron.core.clock import BootTime, Clock, later
from django_leased_cron.core.events import (
    Emit,
    SupervisorReady,
    SupervisorStopped,
    SupervisorStopping,
)
from django_leased_cron.core.lease import LeaseStore
from django_leased_cron.core.outbox import TermKey
from django_leased_cron.core.timing import LeaseTiming
from django_leased_cron.exceptions import StoreError
from django_leased_cron.supervision.dispatch_pool import DispatchPool
from django_leased_cron.supervision.outage import OutageWatch
from django_leased_cron.supervision.roster import TenantRoster
from django_leased_cron.supervision.seat import TenantSeat

_LOOK_S = 0.005
_JOIN_S = 0.5


class Supervisor:
    """Runs until it is asked to stop.

    The end, in this order: bid no more; claim no more, and say so, that nobody gives this process anything; what is in
    flight is finished and confirmed; then the leases are released, while the keeper still renews them; then the process
    row goes, and what was given meanwhile is given back. Never release first: the successor would claim while this
    process still publishes.
    """

    def __init__(
        self,
        roster: TenantRoster,
        pool: DispatchPool,
        *,
        holder_id: str,
        timing: LeaseTiming,
        clock: Clock,
        emit: Emit,
    ) -> None:
        self._roster = roster
        self._pool = pool
        self._holder_id = holder_id
        self._timing = timing
        self._clock = clock
        self._emit = emit
        self.draining = False

    def run(self, wait_for_stop: Callable[[], None]) -> None:
        """Schedule until ``wait_for_stop`` returns, then hand over."""
        self._pool.start()
        self._roster.start()
        self._emit(SupervisorReady(holder_id=self._holder_id, tenants=self._roster.count_tenants()))
        wait_for_stop()
        self.draining = True
        self._emit(SupervisorStopping(holder_id=self._holder_id))
        self._hand_over()

    def _hand_over(self) -> None:
        self._roster.stop(timeout_s=_JOIN_S)
        databases = self._roster.databases
        for database in databases:
            database.standby.stop(timeout_s=_JOIN_S)
        seats = [(database, seat) for database in databases for seat in database.seats]
        for _, seat in seats:
            seat.drain()
        for database in databases:
            database.keeper.beat_now()
        deadline = later(self._clock.boot_time(), self._timing.publish_timeout_s)
        released = unreleased = 0
        for database, seat in seats:
            self._wait_until_drained(seat, deadline)
            term = seat.term
            if term is None:
                continue
            if self._release(database.store, seat, term):
                released += 1
            else:
                unreleased += 1
        for database in databases:
            database.keeper.stop(timeout_s=_JOIN_S)
            forget = partial(database.store.forget_process, holder_id=self._holder_id)
            self._try(forget, alias=database.store.alias, doing="signing off")
            # Last: nothing is given to a process that has no row.
            self._try(database.standby.decline, alias=database.store.alias, doing="releasing leases")
        self._pool.stop(timeout_s=_JOIN_S)
        for database in databases:
            database.close()
        self._emit(SupervisorStopped(holder_id=self._holder_id, released=released, unreleased=unreleased))

    def _wait_until_drained(self, seat: TenantSeat, deadline: BootTime) -> None:
        """Wait for what is in flight; bounded, for a publish may hang and a database may be away."""
        while not (self._pool.is_idle(seat.tenant_key) and seat.is_drained):
            if self._clock.boot_time() >= deadline:
                return
            # An Event nobody sets: a wait that ends by itself, without reading a clock that tests cannot move.
            threading.Event().wait(_LOOK_S)

    def _release(self, store: LeaseStore, seat: TenantSeat, term: TermKey) -> bool:
        if not (self._pool.is_idle(seat.tenant_key) and seat.is_drained):
            # A publish still hangs, or its outcome is unrecorded: the lease runs out by itself, or is rescued.
            return False
        try:
            return seat.release(term)
        except StoreError as exc:
            OutageWatch(alias=store.alias, doing="releasing leases", emit=self._emit).failed(exc)
            return False

    def _try(self, act: Callable[[], None], *, alias: str, doing: str) -> None:
        """Do what is polite; the way down goes on without it."""
        try:
            act()
        except StoreError as exc:
            OutageWatch(alias=alias, doing=doing, emit=self._emit).failed(exc)
