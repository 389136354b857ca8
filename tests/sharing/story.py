"""Random events in a world, one after another, and what each comes to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from django_leased_cron.core.placement import MOST_UNEVEN
from tests.sharing.process import TIMING
from tests.sharing.world import World

SETTLE_S: Final = 3 * TIMING.lease_ttl_s
"""An idle tenant of a dead process is missed after LEASE_TTL; then shares are to come level again."""
LATE_BOUND_MS: Final = round((TIMING.poll_interval_s + (TIMING.rescue_after_s or 0) + 0.2) * 1000)
EVENTS: Final = ("join", "crash", "leave", "freeze", "partition", "burst")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one event came to.

    Attributes:
        moves: changes of holder until all was settled.
        least: how many the event makes necessary.
        imbalance: the largest deviation from the mean share, as a part of it, when settled.
        uneven: the same in tenants.
        unheld: tenants that nobody works for, when settled.
        worst_lateness_ms: of what came due meanwhile.
    """

    event: str
    moves: int
    least: int
    imbalance: float
    uneven: int
    unheld: int
    worst_lateness_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A number of processes start; then each event has time to settle."""

    world: World
    processes: int

    def tell(self, events: int) -> Iterator[Outcome]:
        """Start the processes, then let so many events happen."""
        yield self._live_through("start", self._start)
        for number in range(events):
            event = EVENTS[number] if number < len(EVENTS) else self._draw_event()
            yield self._live_through(event, getattr(self, f"_{event}"))

    def _draw_event(self) -> str:
        """What has ended is started again, some time later: else nobody would be left."""
        return "join" if len(self.world.processes) < self.processes - 1 else self.world.random.choice(EVENTS)

    def _live_through(self, event: str, happen: Callable[[], int]) -> Outcome:
        world = self.world
        world.moves = 0
        world.latenesses_ms.clear()
        least = happen()
        world.run(SETTLE_S)
        shares = world.count_shares()
        mean = len(world.tenant_keys) / len(shares)
        return Outcome(
            event=event,
            moves=world.moves,
            least=least,
            imbalance=world.find_imbalance(),
            uneven=math.ceil(max(abs(count - mean) for count in shares.values())),
            unheld=world.count_unheld(),
            worst_lateness_ms=max(world.latenesses_ms, default=0),
        )

    # Events; each returns the least number of moves that it makes necessary.

    def _start(self) -> int:
        for _ in range(self.processes):
            self.world.join()
            self.world.run(0.1)
        self.world.run(SETTLE_S)  # the first one there takes all, and bids for a while
        return len(self.world.tenant_keys)

    def _join(self) -> int:
        self.world.join()
        return len(self.world.tenant_keys) // len(self.world.processes)

    def _crash(self) -> int:
        holder_id, count = self._pick()
        self.world.crash(self.world.processes[holder_id])
        return count

    def _leave(self) -> int:
        holder_id, count = self._pick()
        self.world.leave(self.world.processes[holder_id])
        return count

    def _freeze(self) -> int:
        """For a while in which only some of its tenants are missed."""
        return self._stand_still(self.world.random.uniform(1.0, TIMING.lease_ttl_s / 2))

    def _partition(self) -> int:
        """For so long that all is taken from it."""
        return self._stand_still(self.world.random.uniform(TIMING.lease_ttl_s, 2 * TIMING.lease_ttl_s))

    def _burst(self) -> int:
        """Several things at once."""
        return self._crash() + self._join() + self._freeze()

    def _stand_still(self, seconds: float) -> int:
        holder_id, count = self._pick()
        world = self.world
        world.freeze(world.processes[holder_id], seconds)
        world.run(seconds)
        # What was taken from it had to move, and what it then lacks has to come back.
        lost = count - world.count_shares()[holder_id]
        return 2 * lost

    def _pick(self) -> tuple[str, int]:
        shares = self.world.count_shares()
        holder_id = self.world.random.choice(sorted(self.world.processes))
        return holder_id, shares[holder_id]


def find_faults(outcome: Outcome) -> list[str]:
    """Return what an event came to that it should not have."""
    faults = []
    if outcome.unheld:
        faults.append(f"{outcome.unheld} tenants are held by nobody")
    if outcome.imbalance > MOST_UNEVEN and outcome.uneven > 1:
        faults.append(f"shares deviate by {outcome.imbalance:.0%}")
    # At the start all is free, and the first process there bids for all of it before anything else.
    if outcome.event != "start" and outcome.worst_lateness_ms > LATE_BOUND_MS:
        faults.append(f"something was {outcome.worst_lateness_ms} ms late, the bound is {LATE_BOUND_MS} ms")
    return faults


def compare_moves(outcomes: Iterable[Outcome]) -> dict[str, float]:
    """Return moves for each necessary one, by kind of event."""
    moves: Counter[str] = Counter()
    least: Counter[str] = Counter()
    for outcome in outcomes:
        moves[outcome.event] += outcome.moves
        least[outcome.event] += outcome.least
    return {event: moves[event] / max(1, least[event]) for event in moves}
