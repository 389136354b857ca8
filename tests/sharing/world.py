"""Any number of tenants and processes in simulated time, and what happens to them."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from django_leased_cron.core.placement import Move
from django_leased_cron.testing import FakeClock, InMemoryLeaseStore
from tests.sharing.process import TIMING, SimulatedProcess

BID_S: Final = 0.002
"""What one statement takes."""
PERIODS_S: Final = (5, 20, 60)
"""How often the tenants' jobs come due; each has one of these periods."""


class World:
    """Processes over one database that cannot announce anything: what is given is found at the next poll.

    Attributes:
        latenesses_ms: of everything that came due, when it was acted upon.
        holders: the process that last began a term of each tenant.
        moves: how many terms began since this was last set to 0.
        given: how many hand-overs, of all time.
    """

    def __init__(self, *, tenants: int, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - decides when things happen, and is to be repeatable
        self.clock = FakeClock()
        self.store = InMemoryLeaseStore(
            self.clock, lease_ttl_ms=TIMING.lease_ttl_ms, rescue_after_ms=TIMING.rescue_after_ms
        )
        self.tenant_keys = [f"tenant {number:04}" for number in range(tenants)]
        self.processes: dict[str, SimulatedProcess] = {}
        self.latenesses_ms: list[int] = []
        self.holders: dict[str, str] = {}
        self.moves = self.given = 0
        self._looks: dict[str, object] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._names = itertools.count(1)
        self._periods_ms = {key: self.random.choice(PERIODS_S) * 1000 for key in self.tenant_keys}
        self._due_at_ms: dict[str, int] = {}
        self.store.read(self.tenant_keys)
        for tenant_key in self.tenant_keys:
            self._due_at_ms[tenant_key] = self.store.now_ms + self.random.randrange(self._periods_ms[tenant_key])
            self.store.change(tenant_key, owed_since_ms=self._due_at_ms[tenant_key])
            self._wait_for_due(tenant_key)

    # What happens

    def run(self, seconds: float) -> None:
        end = self.clock.boot_time() + seconds
        while self._events and self._events[0][0] <= end:
            at, _, act = heapq.heappop(self._events)
            self.clock.advance(max(0.0, at - self.clock.boot_time()))
            act()
        self.clock.advance(max(0.0, end - self.clock.boot_time()))

    def join(self) -> SimulatedProcess:
        """Start a process."""
        process = SimulatedProcess(
            f"process {next(self._names):03}",
            self.store,
            self.clock,
            tenant_keys=self.tenant_keys,
            begun=lambda tenant_key: self._begun(process, tenant_key),
        )
        self.processes[process.holder_id] = process
        process.report()
        self._look_after(process, self.random.uniform(0, TIMING.poll_interval_s))
        self._after(self.random.uniform(0, TIMING.heartbeat_s), lambda: self._beat(process))
        return process

    def crash(self, process: SimulatedProcess) -> None:
        process.is_alive = process.is_reaching = False
        del self.processes[process.holder_id]

    def leave(self, process: SimulatedProcess) -> None:
        """Stop a process politely."""
        terms = process.leave()
        process.is_alive = process.is_reaching = False
        del self.processes[process.holder_id]
        for number, (tenant_key, epoch) in enumerate(terms.items(), 1):
            self._after(BID_S * number, lambda key=tenant_key, epoch=epoch: process.release(key, epoch))  # type: ignore[misc]
        self._after(BID_S * (len(terms) + 1), process.decline)

    def freeze(self, process: SimulatedProcess, seconds: float) -> None:
        """Stop a process in its tracks, or cut it off from the database, and let it go on afterwards."""
        process.is_reaching = False
        self._after(seconds, lambda: self._resume(process))

    # What is seen

    def count_shares(self) -> Counter[str]:
        """Return how many tenants each process holds that is there."""
        shares = Counter(dict.fromkeys(self.processes, 0))
        shares.update(row.holder_id for row in self.store.rows.values() if row.holder_id in self.processes)
        return shares

    def find_imbalance(self) -> float:
        """Return the largest deviation from the mean share, as a part of it."""
        counts = self.count_shares().values()
        mean = len(self.tenant_keys) / len(counts)
        return max(abs(count - mean) for count in counts) / mean

    def count_unheld(self) -> int:
        """Return how many tenants nobody who is there works for."""
        return sum(
            row.holder_id not in self.processes or self.processes[row.holder_id].terms.get(key) != row.epoch
            for key, row in self.store.rows.items()
        )

    # Inside

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.clock.boot_time() + seconds, next(self._order), act))

    def _look_after(self, process: SimulatedProcess, seconds: float) -> None:
        """Have the process look at the leases, and forget when else it would have."""
        look = self._looks[process.holder_id] = object()
        self._after(seconds, lambda: self._look(process, look))

    def _look(self, process: SimulatedProcess, look: object) -> None:
        if process.is_reaching and self._looks[process.holder_id] is look:
            self._go_on(process, process.poll(), look)

    def _go_on(self, process: SimulatedProcess, steps: Iterator[None], look: object) -> None:
        if self._looks[process.holder_id] is not look:
            return
        if next(steps, self) is None:
            self._after(BID_S, lambda: self._go_on(process, steps, look))
        elif process.is_reaching:
            for number, move in enumerate(process.choose_moves(), 1):
                self._after(BID_S * number, lambda move=move: self._give(process, move))  # type: ignore[misc]
            self._look_after(process, max(process.find_wait_s(), 0.01))

    def _beat(self, process: SimulatedProcess) -> None:
        if process.is_reaching:
            process.beat()
        if process.is_alive:
            self._after(TIMING.heartbeat_s, lambda: self._beat(process))

    def _resume(self, process: SimulatedProcess) -> None:
        if process.is_alive:
            process.is_reaching = True
            process.end_untrusted_terms()
            for tenant_key, epoch in process.terms.items():
                if self.store.is_held(tenant_key, holder_id=process.holder_id, epoch=epoch):
                    self._act(tenant_key)
            self._look_after(process, 0.0)

    def _give(self, process: SimulatedProcess, move: Move) -> None:
        if process.is_reaching:
            self.given += process.give(move)

    def _begun(self, process: SimulatedProcess, tenant_key: str) -> None:
        """A new term claims at once, and is the holder of what is owed."""
        if self.holders.get(tenant_key) != process.holder_id:
            self.moves += 1
        self.holders[tenant_key] = process.holder_id
        self._act(tenant_key)

    def _wait_for_due(self, tenant_key: str) -> None:
        seconds = (self._due_at_ms[tenant_key] - self.store.now_ms) / 1000
        self._after(max(0.0, seconds), lambda: self._come_due(tenant_key))

    def _come_due(self, tenant_key: str) -> None:
        """The holder acts, if there is one that can; else the work is owed until somebody begins a term."""
        row = self.store.rows[tenant_key]
        process = self.processes.get(row.holder_id)
        if process is not None and process.is_reaching and process.terms.get(tenant_key) == row.epoch:
            self._act(tenant_key)
        elif self._due_at_ms[tenant_key] > self.store.now_ms:
            self._wait_for_due(tenant_key)

    def _act(self, tenant_key: str) -> None:
        now_ms, due_at_ms = self.store.now_ms, self._due_at_ms[tenant_key]
        if due_at_ms <= now_ms:
            self.latenesses_ms.append(now_ms - due_at_ms)
            period_ms = self._periods_ms[tenant_key]
            self._due_at_ms[tenant_key] = due_at_ms + (now_ms - due_at_ms) // period_ms * period_ms + period_ms
            self._wait_for_due(tenant_key)
        # A claim comes after the acquire that it proves, be it by a millisecond.
        self.store.change(tenant_key, progressed_at_ms=now_ms + 1, owed_since_ms=self._due_at_ms[tenant_key])
