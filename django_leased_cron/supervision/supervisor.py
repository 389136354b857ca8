"""The process as a whole: start the loops, wait, and end in the order that hands over at once (I9)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from django_leased_cron.core.clock import BootTime, Clock, later
from django_leased_cron.core.events import (
    DatabaseOutage,
    Emit,
    SupervisorReady,
    SupervisorStopped,
    SupervisorStopping,
)
from django_leased_cron.core.lease import LeaseStore, WakeUps
from django_leased_cron.core.timing import LeaseTiming
from django_leased_cron.exceptions import StoreError
from django_leased_cron.supervision.dispatch_pool import DispatchPool
from django_leased_cron.supervision.keeper import LeaseKeeper
from django_leased_cron.supervision.seat import TenantSeat
from django_leased_cron.supervision.standby import StandbyPoll

_LOOK_S = 0.005
_JOIN_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseLoops:
    """What runs once per database: the leases' keeper, and the standby that looks at them."""

    store: LeaseStore
    wake_ups: WakeUps
    keeper: LeaseKeeper
    standby: StandbyPoll
    seats: Sequence[TenantSeat]


class Supervisor:
    """Runs until it is asked to stop.

    The end, in this order: bid no more; claim no more, and say so, that nobody gives this process anything; what is in
    flight is finished and confirmed; then the leases are released, while the keeper still renews them; then the process
    row goes. Never release first: the successor would claim while this process still publishes.
    """

    def __init__(
        self,
        databases: Sequence[DatabaseLoops],
        pool: DispatchPool,
        *,
        holder_id: str,
        timing: LeaseTiming,
        clock: Clock,
        emit: Emit,
    ) -> None:
        self._databases = databases
        self._pool = pool
        self._holder_id = holder_id
        self._timing = timing
        self._clock = clock
        self._emit = emit
        self.draining = False

    def run(self, wait_for_stop: Callable[[], None]) -> None:
        """Schedule until ``wait_for_stop`` returns, then hand over."""
        self._pool.start()
        for database in self._databases:
            database.keeper.start()
            database.standby.start()
        self._emit(SupervisorReady(holder_id=self._holder_id, tenants=sum(len(d.seats) for d in self._databases)))
        wait_for_stop()
        self.draining = True
        self._emit(SupervisorStopping(holder_id=self._holder_id))
        self._hand_over()

    def _hand_over(self) -> None:
        for database in self._databases:
            database.standby.stop(timeout_s=_JOIN_S)
        seats = [(database, seat) for database in self._databases for seat in database.seats]
        for _, seat in seats:
            seat.drain()
        for database in self._databases:
            database.keeper.beat_now()
        deadline = later(self._clock.boot_time(), self._timing.publish_timeout_s)
        released = unreleased = 0
        for database, seat in seats:
            self._wait_until_drained(seat, deadline)
            term = seat.term
            if term is None:
                continue
            if self._release(database.store, seat, term.epoch):
                released += 1
            else:
                unreleased += 1
        for database in self._databases:
            self._try(database.standby.decline, alias=database.store.alias, doing="releasing leases")
            database.keeper.stop(timeout_s=_JOIN_S)
            forget = partial(database.store.forget_process, holder_id=self._holder_id)
            self._try(forget, alias=database.store.alias, doing="signing off")
        self._pool.stop(timeout_s=_JOIN_S)
        for database in self._databases:
            database.store.close()
            database.wake_ups.close()
        self._emit(SupervisorStopped(holder_id=self._holder_id, released=released, unreleased=unreleased))

    def _wait_until_drained(self, seat: TenantSeat, deadline: BootTime) -> None:
        """Wait for what is in flight; bounded, for a publish may hang and a database may be away."""
        while not (self._pool.is_idle(seat.tenant_key) and seat.is_drained):
            if self._clock.boot_time() >= deadline:
                return
            # An Event nobody sets: a wait that ends by itself, without reading a clock that tests cannot move.
            threading.Event().wait(_LOOK_S)

    def _release(self, store: LeaseStore, seat: TenantSeat, epoch: int) -> bool:
        if not (self._pool.is_idle(seat.tenant_key) and seat.is_drained):
            # A publish still hangs, or its outcome is unrecorded: the lease runs out by itself, or is rescued.
            return False
        try:
            released = store.release(tenant_key=seat.tenant_key, holder_id=self._holder_id, epoch=epoch)
        except StoreError as exc:
            self._emit(DatabaseOutage(alias=store.alias, doing="releasing leases", detail=str(exc)))
            return False
        if released:
            seat.released(epoch)
        else:
            seat.denied(epoch)
        return released

    def _try(self, act: Callable[[], None], *, alias: str, doing: str) -> None:
        """Do what is polite; the way down goes on without it."""
        try:
            act()
        except StoreError as exc:
            self._emit(DatabaseOutage(alias=alias, doing=doing, detail=str(exc)))
