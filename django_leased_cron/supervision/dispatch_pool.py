"""A bounded number of threads that step any number of tenants."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from django_leased_cron.core.clock import BootTime, Clock
from django_leased_cron.core.publication import Publisher
from django_leased_cron.supervision.seat import TenantSeat

_EARLY_ONE_IN: Final = 8
"""However much is due, so many steps have one among them that could wait: nobody waits for ever."""


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
        self._early: deque[tuple[str, BootTime]] = deque()
        self._takes = itertools.count(1)
        self._seats: dict[str, TenantSeat] = {}
        self._due_at: dict[str, BootTime] = {}
        self._running: set[str] = set()
        self._woken: set[str] = set()
        self._stopped = False
        self._started = False
        self._most_threads = threads
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        with self._changed:
            self._started = True
            self._start_threads()

    def add(self, seat: TenantSeat) -> None:
        with self._changed:
            self._seats[seat.tenant_key] = seat
            if self._started:
                self._start_threads()

    def remove(self, tenant_key: str) -> None:
        """Step a seat no more; a step that goes on ends by itself."""
        with self._changed:
            self._seats.pop(tenant_key, None)
            self._due_at.pop(tenant_key, None)
            self._woken.discard(tenant_key)

    def wake(self, tenant_key: str) -> None:
        """Step a seat at once, or once more if it is being stepped now."""
        with self._changed:
            if tenant_key in self._running:
                self._woken.add(tenant_key)
            elif tenant_key in self._seats:
                self._schedule(tenant_key, self._clock.boot_time())

    def wake_by(self, tenant_key: str, at: BootTime) -> None:
        """Step a seat by then, and earlier if a thread has nothing to do that is due.

        For the first steps of many terms that begin at once: what is due among the first must not wait for the last.
        """
        with self._changed:
            if tenant_key in self._running:
                self._woken.add(tenant_key)
            elif tenant_key in self._seats:
                self._schedule(tenant_key, at)
                self._early.append((tenant_key, at))

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

    def _start_threads(self) -> None:
        """Have a thread for each seat, up to the limit; the lock is held."""
        while len(self._threads) < min(self._most_threads, len(self._seats)):
            name = f"leased-cron-dispatch-{len(self._threads)}"
            self._threads.append(threading.Thread(target=self._run, name=name, daemon=True))
            self._threads[-1].start()

    def _schedule(self, tenant_key: str, at: BootTime) -> None:
        """Replace the time at which a seat is stepped; the lock is held."""
        self._due_at[tenant_key] = at
        heapq.heappush(self._queue, (at, next(self._order), tenant_key))
        self._changed.notify()

    def _run(self) -> None:
        publisher = self._build_publisher()
        try:
            while (seat := self._take()) is not None:
                again_at = seat.step(publisher)
                self._give_back(seat, again_at)
        finally:
            publisher.close()

    def _take(self) -> TenantSeat | None:
        with self._changed:
            while not self._stopped:
                due_in_s = self._find_wait()
                is_due = due_in_s is not None and due_in_s <= 0
                tenant_key = None
                if not is_due or next(self._takes) % _EARLY_ONE_IN == 0:
                    tenant_key = self._find_early()
                if tenant_key is None and is_due:
                    tenant_key = heapq.heappop(self._queue)[2]
                if tenant_key is not None:
                    del self._due_at[tenant_key]
                    self._running.add(tenant_key)
                    return self._seats[tenant_key]
                self._changed.wait(due_in_s)
            return None

    def _find_wait(self) -> float | None:
        """Return in how long the first seat is due, which is then the first in the queue; ``None``: no seat is."""
        while self._queue:
            at, _, tenant_key = self._queue[0]
            if self._due_at.get(tenant_key) == at and tenant_key not in self._running:
                return min(at - self._clock.boot_time(), threading.TIMEOUT_MAX)
            heapq.heappop(self._queue)  # scheduled anew since, or being stepped
        return None

    def _find_early(self) -> str | None:
        while self._early:
            tenant_key, at = self._early.popleft()
            if self._due_at.get(tenant_key) == at and tenant_key not in self._running:
                return tenant_key
        return None

    def _give_back(self, seat: TenantSeat, again_at: BootTime | None) -> None:
        tenant_key = seat.tenant_key
        with self._changed:
            self._running.discard(tenant_key)
            if self._seats.get(tenant_key) is not seat:
                return  # removed meanwhile
            if tenant_key in self._woken:
                self._woken.discard(tenant_key)
                self._schedule(tenant_key, self._clock.boot_time())
            elif again_at is not None:
                self._schedule(tenant_key, again_at)
