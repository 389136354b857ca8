"""A stretch of simulated time: jobs, people, processes that come and go, and what came of it beside the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Final

from django.db.models import Min

from django_leased_cron.core.timing import LeaseTiming
from django_leased_cron.models import JobState, Occurrence
from tests.simulation.broker import ProcessDied, SimulatedBroker
from tests.simulation.comparison import find_differences
from tests.simulation.model import Model, find_due_instants
from tests.simulation.people import People
from tests.simulation.process import SimulatedProcess
from tests.simulation.simulated_time import SimulatedTime
from tests.simulation.timeline import Died, Happening

TICK_MS: Final = 2 * 60 * 60_000
"""How often a term gets to act. Nothing is missed by that: it is less than the lease lasts."""
TIMING: Final = LeaseTiming(
    lease_ttl_s=9000, heartbeat_s=3000, poll_interval_s=0.5, rescue_after_s=1, publish_timeout_s=5
)
_SECOND_MS: Final = 1000
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_SHARE_OF_EDITED_OUTAGES: Final = 0.5
_SHARE_OF_SHORT_TERMS: Final = 0.2
_ENDS_QUIETLY: Final = 2 * _DAY_MS
"""No process ends in the last days, so that everything that is left behind can be adopted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is simulated."""

    seed: int
    start_at: datetime
    jobs: int
    crontabs: int
    zones: int
    days: int
    edits: int
    ends: int
    """How many processes end; after each there is an outage, then a takeover."""


@dataclass(slots=True)
class Outcome:
    """What was counted, and every difference between what happened and what must have.

    Attributes:
        dispatched: occurrences that the broker must have; ``messages`` may be more, by what is ``repeated``.
        repeated: messages that the broker had and that their process could not confirm any more.
        missed: slots that catch-up must have skipped, by reason.
        replaced: slots that were due and lost to an edit.
        given_up: claims that no term published.
        woke_up_late: frozen processes that went on after a takeover.
    """

    messages: int = 0
    dispatched: int = 0
    repeated: int = 0
    missed: Mapping[str, int] = field(default_factory=dict)
    replaced: int = 0
    given_up: int = 0
    edits: int = 0
    outages: int = 0
    takeovers: int = 0
    died_in_a_batch: int = 0
    woke_up_late: int = 0
    crontabs: int = 0
    differences: list[str] = field(default_factory=list)


class Simulation:
    """One tenant, scheduled by one process after another."""

    def __init__(self, alias: str, size: Size) -> None:
        self._alias = alias
        self._size = size
        self._random = Random(size.seed)  # noqa: S311 - chosen once, to be repeated
        self._timeline: list[Happening] = []
        self._start_ms = round(size.start_at.timestamp() * 1000)
        self._time = SimulatedTime(self._start_ms)
        self._broker = SimulatedBroker(self._time, self._timeline)
        self._people = People(alias, random=self._random, zones=size.zones, time=self._time, timeline=self._timeline)
        self._end_ms = self._start_ms + size.days * _DAY_MS
        self._outcome = Outcome()
        self._process: SimulatedProcess | None = None
        self._frozen: SimulatedProcess | None = None
        self._revives_at_ms = self._start_ms

    def run(self) -> Outcome:
        """Let it happen, then compare."""
        self._people.add_schedules(self._size.crontabs)
        self._people.add_jobs(self._size.jobs)
        ends = self._draw_instants(self._size.ends, until_ms=self._end_ms - _ENDS_QUIETLY)
        edits = self._draw_instants(self._size.edits, until_ms=self._end_ms)
        while self._time.now_ms < self._end_ms:
            self._live_until(min([*edits[:1], *ends[:1], self._end_ms]))
            if edits and edits[0] <= self._time.now_ms:
                self._edit(edits.pop(0))
            if ends and ends[0] <= self._time.now_ms:
                ends.pop(0)
                self._end_process()
        self._live_until(self._end_ms)
        if self._process is not None:
            self._process.close()
        return self._compare()

    # What happens

    def _draw_instants(self, count: int, *, until_ms: int) -> list[int]:
        return sorted(self._random.randrange(self._start_ms + _HOUR_MS, until_ms, 500) for _ in range(count))

    def _live_until(self, at_ms: int) -> None:
        """Let the living process act whenever something is due, and the next one take over when it is time."""
        while True:
            if self._process is None:
                if self._revives_at_ms > at_ms:
                    break
                self._time.advance_to(self._revives_at_ms)
                self._take_over()
                continue
            next_ms = self._find_next_tick()
            if next_ms > at_ms:
                break
            self._time.advance_to(next_ms)
            self._act()
        self._time.advance_to(at_ms)

    def _find_next_tick(self) -> int:
        fire_at_ms: int | None = JobState.objects.using(self._alias).aggregate(first=Min("fire_at_ms"))["first"]
        if fire_at_ms is None:
            return self._end_ms + 1
        return max(-(-fire_at_ms // TICK_MS) * TICK_MS, self._time.now_ms)

    def _act(self) -> None:
        assert self._process is not None
        try:
            self._process.run()
        except ProcessDied:
            self._outcome.died_in_a_batch += 1
            self._leave(self._process)

    def _edit(self, at_ms: int) -> None:
        """Let people edit; the process looks half a second later, or just when something is due as well."""
        if self._process is not None and self._random.random() < 0.3:
            self._time.advance_to(min(self._find_next_tick(), at_ms + _DAY_MS))
        for _ in range(self._random.choice((1, 1, 1, 2, 5))):
            self._people.edit()
        if self._process is not None:
            if self._random.random() < 0.7:
                self._time.advance(TIMING.poll_interval_s)
            self._act()

    def _end_process(self) -> None:
        """End it in the middle of the next batch, or between two, for good or frozen."""
        if self._process is None:
            return
        match self._random.choice(("in a batch", "in a batch", "between", "frozen")):
            case "in a batch":
                self._broker.dies_after = self._random.choice((0, 1, self._random.randrange(50), 50))
            case "between":
                self._leave(self._process)
            case _:
                self._frozen = self._process
                self._leave(None)

    def _leave(self, gone: SimulatedProcess | None) -> None:
        if gone is not None:
            gone.close()
        self._process = None
        self._broker.dies_after = None
        self._outcome.outages += 1
        # As long as a rescue takes, shorter than a lease, and longer than anything is caught up.
        shortest_ms, longest_ms = self._random.choices(
            (
                (2 * _SECOND_MS, 3 * _SECOND_MS),
                (60 * _SECOND_MS, _HOUR_MS),
                (_HOUR_MS, 12 * _HOUR_MS),
                (_HOUR_MS, 4 * _DAY_MS),
            ),
            (4, 3, 2, 1),
        )[0]
        outage_ms = self._random.randrange(shortest_ms, longest_ms, 500)
        self._revives_at_ms = min(self._time.now_ms + outage_ms, self._end_ms - _ENDS_QUIETLY // 2)

    def _take_over(self) -> None:
        number = self._outcome.takeovers = self._outcome.takeovers + 1
        process = SimulatedProcess(
            self._alias,
            holder_id=f"simulated-{number}",
            time=self._time,
            broker=self._broker,
            timeline=self._timeline,
            timing=TIMING,
        )
        if not process.try_take_over():
            # Neither expired nor owed for long enough: it looks again later.
            process.close()
            self._outcome.takeovers -= 1
            self._revives_at_ms = self._time.now_ms + 60 * _SECOND_MS
            return
        self._process = process
        if self._random.random() < _SHARE_OF_EDITED_OUTAGES:
            # Nobody has noticed that when the new term claims what has come due meanwhile.
            for _ in range(self._random.randrange(1, 12)):
                self._people.edit()
        if self._time.now_ms < self._end_ms - _ENDS_QUIETLY and self._random.random() < _SHARE_OF_SHORT_TERMS:
            # With all the work that has waited: several batches.
            self._broker.dies_after = self._random.randrange(50)
        self._act()
        self._wake_up_late()
        if self._process is not None:
            # From now on it may adopt what the others left.
            self._time.advance(TIMING.publish_timeout_s)
            self._act()

    def _wake_up_late(self) -> None:
        if self._frozen is not None:
            self._frozen.wake_up_late()
            self._frozen.close()
            self._frozen = None
            self._outcome.woke_up_late += 1

    # What came of it

    def _compare(self) -> Outcome:
        outcome = self._outcome
        due_instants = find_due_instants(self._people.crontabs, start_ms=self._start_ms, end_ms=self._end_ms + _DAY_MS)
        expected = Model(
            due_instants,
            missed_after_ms=TIMING.missed_after_ms,
            noticed_within_ms=round(TIMING.poll_interval_s * 1000),
        ).follow(self._timeline)
        outcome.edits = self._people.edits
        outcome.crontabs = len(self._people.crontabs)
        outcome.messages = len(self._broker.accepted)
        outcome.dispatched = len(expected.dispatched)
        outcome.repeated = sum(len(each.accepted) for each in self._timeline if isinstance(each, Died))
        outcome.missed = {reason: len(slots) for reason, slots in expected.missed.items()}
        outcome.replaced = len(expected.replaced)
        outcome.given_up = len(expected.given_up - expected.dispatched)
        rows = Occurrence.objects.using(self._alias).all()
        outcome.differences = list(find_differences(expected, self._broker.accepted, rows))
        return outcome
