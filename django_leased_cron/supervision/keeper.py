"""Renewing the leases of one database, on a thread and a connection of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from django_leased_cron.core.clock import Clock
from django_leased_cron.core.events import Emit, LoopFailed
from django_leased_cron.core.lease import LeaseStore, ProcessReport
from django_leased_cron.core.timing import LeaseTiming
from django_leased_cron.exceptions import StoreError
from django_leased_cron.supervision.outage import OutageWatch
from django_leased_cron.supervision.seat import TenantSeat


class LeaseKeeper:
    """Renews what this process holds in one database: one statement a heartbeat, however many leases.

    A renewal that fails says nothing (I7): the next heartbeat tries again, and trust, which no failure extends, ends
    the term if none gets through. A loop that is stuck is not renewed: its lease is for somebody who works.
    """

    def __init__(
        self,
        store: LeaseStore,
        seats: Iterable[TenantSeat],
        *,
        holder_id: str,
        timing: LeaseTiming,
        describe: Callable[[], ProcessReport],
        clock: Clock,
        emit: Emit,
    ) -> None:
        self._store = store
        self._seats = seats
        self._holder_id = holder_id
        self._timing = timing
        self._describe = describe
        self._clock = clock
        self._emit = emit
        self._outage = OutageWatch(alias=store.alias, doing="renewing leases", emit=emit)
        self._stopping = False
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"leased-cron-keeper-{store.alias}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, timeout_s: float) -> None:
        self._stopping = True
        self._woken.set()
        self._thread.join(timeout_s)

    def beat_now(self) -> None:
        """Do not wait for the next heartbeat: there is something to say."""
        self._woken.set()

    def _run(self) -> None:
        while True:
            try:
                self.beat()
            except StoreError as exc:
                self._outage.failed(exc)
            except Exception as exc:  # noqa: BLE001 - top of the loop: a term must not end for an error of ours
                self._emit(LoopFailed(doing="renewing leases", error=exc))
            else:
                self._outage.worked()
            self._woken.wait(self._timing.heartbeat_s)
            self._woken.clear()
            if self._stopping:
                return

    def beat(self) -> None:
        """Renew once, and say that this process lives; raises ``StoreError``."""
        turning = [seat for seat in self._seats if not seat.is_stuck(for_s=self._timing.loop_stalled_after_s)]
        terms = {seat.tenant_key: (seat, term) for seat in turning if (term := seat.term) is not None}
        if terms:
            asked_at = self._clock.boot_time()
            epochs = {tenant_key: term.epoch for tenant_key, (_, term) in terms.items()}
            renewal = self._store.renew(holder_id=self._holder_id, epochs=epochs)
            for tenant_key in renewal.renewed:
                terms[tenant_key][0].proved(epochs[tenant_key], asked_at)
            for tenant_key in renewal.lost:
                terms[tenant_key][0].denied(epochs[tenant_key])
        self._store.report_process(self._describe())
