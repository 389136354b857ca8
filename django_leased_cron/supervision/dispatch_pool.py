"""A bounded number of threads that step any number of tenants."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable

from django_leased_cron.core.clock import BootTime, Clock
from django_leased_cron.core.publication import Publisher
from django_leased_cron.supervision.seat import TenantSeat


class DispatchPool:
    """Steps each seat when its time has come, never in two threads at once.

    Every thread owns one broker connection: those are not to be shared, and one that hangs holds up one thread.
    """

    def __init__(self, *, threads: int, build_publisher: Callable[[], Publisher], clock: Clock) -> None:
        self._build_publisher = build_publisher
        self._clock = clock
        self._changed = threading.Condition()
        self._queue: list[tuple[BootTime, int, str]] = []
        self._order = itertools.count()
        self._seats: dict[str, TenantSeat] = {}
        self._due_at: dict[str, BootTime] = {}
        self._running: set[str] = set()
        self._woken: set[str] = set()
        self._stopped = False
        self._threads = [
            threading.Thread(target=self._run, name=f"leased-cron-dispatch-{number}", daemon=True)
            for number in range(threads)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def add(self, seat: TenantSeat) -> None:
        with self._changed:
            self._seats[seat.tenant_key] = seat

    def wake(self, tenant_key: str) -> None:
        """Step a seat at once, or once more if it is being stepped now."""
        with self._changed:
            if tenant_key in self._running:
                self._woken.add(tenant_key)
            else:
                self._schedule(tenant_key, BootTime(0.0))

    def is_idle(self, tenant_key: str) -> bool:
        """Whether the seat is neither being stepped nor about to be."""
        with self._changed:
            at = self._due_at.get(tenant_key)
            return tenant_key not in self._running and (at is None or at > self._clock.boot_time())

    def stop(self, *, timeout_s: float) -> None:
        """End the threads; one that hangs in a publish is left to the end of the process."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout_s)

    def _schedule(self, tenant_key: str, at: BootTime) -> None:
        """Replace the time at which a seat is stepped; the lock is held."""
        self._due_at[tenant_key] = at
        heapq.heappush(self._queue, (at, next(self._order), tenant_key))
        self._changed.notify()

    def _run(self) -> None:
        publisher = self._build_publisher()
        try:
            while (tenant_key := self._take()) is not None:
                again_at = self._seats[tenant_key].step(publisher)
                self._give_back(tenant_key, again_at)
        finally:
            publisher.close()

    def _take(self) -> str | None:
        with self._changed:
            while not self._stopped:
                wait_s = None
                if self._queue:
                    at, _, tenant_key = self._queue[0]
                    if self._due_at.get(tenant_key) != at or tenant_key in self._running:
                        heapq.heappop(self._queue)  # scheduled anew since, or being stepped
                        continue
                    wait_s = at - self._clock.boot_time()
                    if wait_s <= 0:
                        heapq.heappop(self._queue)
                        del self._due_at[tenant_key]
                        self._running.add(tenant_key)
                        return tenant_key
                self._changed.wait(wait_s)
            return None

    def _give_back(self, tenant_key: str, again_at: BootTime | None) -> None:
        with self._changed:
            self._running.discard(tenant_key)
            if tenant_key in self._woken:
                self._woken.discard(tenant_key)
                self._schedule(tenant_key, BootTime(0.0))
            elif again_at is not None:
                self._schedule(tenant_key, again_at)
