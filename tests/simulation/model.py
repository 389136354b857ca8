"""What must come of a timeline, by the letter of the promises and in the most naive way.

Due instants of crontabs are those of the sweep's oracle, those of intervals are counted up one by one. Each job is
followed from its own point of view: what was it planned from, which slot is its next, what do people want by now?
Instants are milliseconds since the Unix epoch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never
from zoneinfo import ZoneInfo

from tests.simulation.timeline import (
    Claimed,
    Confirmed,
    CrontabPlan,
    Definition,
    Died,
    Edited,
    Happening,
    IntervalPlan,
    Message,
    Plan,
    Planned,
    Rested,
)
from tests.sweep.oracle import due_by_the_letter, watch

Slot = tuple[int, int]
"""A job and its due instant."""
DueInstants = Mapping[CrontabPlan, Sequence[int]]


def find_due_instants(plans: Iterable[CrontabPlan], *, start_ms: int, end_ms: int) -> DueInstants:
    """Return all due instants of each crontab from start to end, in order."""
    by_zone: defaultdict[str, list[CrontabPlan]] = defaultdict(list)
    for plan in plans:
        by_zone[plan.zone].append(plan)
    found: dict[CrontabPlan, Sequence[int]] = {}
    for zone, sharing in by_zone.items():
        watched = watch(ZoneInfo(zone), start=start_ms // 1000, end=end_ms // 1000)
        found |= {plan: [at * 1000 for at in due_by_the_letter(plan.fields, watched)] for plan in sharing}
    return found


@dataclass(slots=True)
class _Job:
    definition: Definition | None
    planned: Plan | None = None
    next_due_ms: int | None = None
    latest_claimed_ms: int = -1
    edited_at_ms: int = 0
    catch_up: str = ""
    window_s: int = 0

    @property
    def wanted(self) -> Plan | None:
        """What people want it planned from by now; ``None``: not at all."""
        return self.definition.plan if self.definition is not None and self.definition.enabled else None


@dataclass(slots=True)
class Expectation:
    """What the model makes of a timeline.

    Attributes:
        dispatched: (job, due instant) of what the broker must have.
        repeated: those of them that it may have more than once: their process died before it could confirm them.
        missed: (job, due instant) of what catch-up must have skipped, by reason.
        replaced: (job, due instant) of slots that were due and lost to an edit.
        given_up: (job, due instant) of claims that their term did not publish and no other did.
        neglected: what should have been done by a moment at which the scheduler rested.
    """

    dispatched: set[Slot] = field(default_factory=set)
    repeated: set[Slot] = field(default_factory=set)
    missed: defaultdict[str, set[Slot]] = field(default_factory=lambda: defaultdict(set))
    replaced: set[Slot] = field(default_factory=set)
    given_up: set[Slot] = field(default_factory=set)
    neglected: list[str] = field(default_factory=list)


class Model:
    """Follows a timeline."""

    def __init__(self, due_instants: DueInstants, *, missed_after_ms: int, noticed_within_ms: int) -> None:
        self.expected = Expectation()
        self._due_instants = due_instants
        self._missed_after_ms = missed_after_ms
        self._noticed_within_ms = noticed_within_ms
        self._jobs: dict[int, _Job] = {}
        self._granted: set[Slot] = set()
        """What the present claim must be granted."""
        self._in_hand: dict[int, Message] = {}
        self._left_behind: dict[int, Message] = {}
        self._claimed_late: set[Slot] = set()

    def follow(self, timeline: Iterable[Happening]) -> Expectation:
        for happening in timeline:
            match happening:
                case Edited():
                    self._edit(happening)
                case Planned(at_ms=at_ms, job_ids=job_ids):
                    for job_id in job_ids:
                        self._plan(job_id, at_ms)
                case Claimed():
                    self._claim_all(happening)
                case Confirmed(occurrence_ids=occurrence_ids):
                    done = [self._in_hand.pop(each) for each in occurrence_ids if each in self._in_hand]
                    self.expected.dispatched.update(message.slot for message in done)
                case Died(accepted=accepted):
                    self._die(accepted)
                case Rested(at_ms=at_ms):
                    self._rest(at_ms)
                case _:
                    assert_never(happening)
        self.expected.given_up.update(message.slot for message in self._left_behind.values())
        return self.expected

    def _edit(self, edit: Edited) -> None:
        job = self._jobs.setdefault(edit.job_id, _Job(None))
        job.definition, job.edited_at_ms = edit.definition, edit.at_ms
        if edit.definition is not None:
            job.catch_up, job.window_s = edit.definition.catch_up, edit.definition.window_s

    # Planning and claiming

    def _plan(self, job_id: int, at_ms: int) -> None:
        """Plan from now on, if the job is to run at other times than it is planned for."""
        job = self._jobs[job_id]
        if job.wanted == job.planned:
            return
        self.expected.replaced.update((job_id, due_ms) for due_ms in self._find_due(job, at_ms))
        job.planned, job.next_due_ms = job.wanted, None
        match job.planned:
            case CrontabPlan() as plan:
                job.next_due_ms = self._after(plan, at_ms)
            case IntervalPlan(every_s=every_s):
                job.next_due_ms = at_ms + every_s * 1000

    def _claim(self, job_id: int, at_ms: int, most: int) -> None:
        job = self._jobs[job_id]
        is_switched_off = job.definition is None or not job.definition.enabled
        if job.wanted != job.planned and not is_switched_off:
            return  # left to be planned anew
        due = self._find_due(job, at_ms)
        fires = 0
        for due_ms in due:
            reason = self._judge(job, due_ms, at_ms, is_latest=due_ms == due[-1])
            if reason is not None:
                self.expected.missed[reason].add((job_id, due_ms))
            elif fires == most:
                break
            else:
                fires += 1
                self._fire(job_id, due_ms, at_ms)
            assert job.planned is not None
            job.next_due_ms = self._following(job.planned, due_ms)
        if is_switched_off:
            job.planned = job.next_due_ms = None

    def _fire(self, job_id: int, due_ms: int, at_ms: int) -> None:
        job = self._jobs[job_id]
        if job.wanted is None:
            self.expected.replaced.add((job_id, due_ms))
            return
        self._granted.add((job_id, due_ms))
        job.latest_claimed_ms = due_ms
        if at_ms - due_ms > self._missed_after_ms:
            self._claimed_late.add((job_id, due_ms))

    def _find_due(self, job: _Job, at_ms: int) -> list[int]:
        due = []
        next_due_ms = job.next_due_ms
        while next_due_ms is not None and next_due_ms <= at_ms:
            assert job.planned is not None
            due.append(next_due_ms)
            next_due_ms = self._following(job.planned, next_due_ms)
        return due

    def _judge(self, job: _Job, due_ms: int, at_ms: int, *, is_latest: bool) -> str | None:
        """Return why a due slot does not fire, or ``None``."""
        late_ms = at_ms - due_ms
        if late_ms <= self._missed_after_ms:
            return None
        if late_ms > job.window_s * 1000:
            return "window"
        if job.catch_up == "all" or (job.catch_up == "once" and is_latest):
            return None
        return "catch_up"

    def _following(self, plan: Plan, due_ms: int) -> int | None:
        match plan:
            case CrontabPlan():
                return self._after(plan, due_ms)
            case IntervalPlan(every_s=every_s):
                return due_ms + every_s * 1000
            case _:
                assert_never(plan)

    def _after(self, plan: CrontabPlan, at_ms: int) -> int | None:
        instants = self._due_instants[plan]
        index = bisect_right(instants, at_ms)
        return instants[index] if index < len(instants) else None

    # What is claimed, and what becomes of it

    def _claim_all(self, claimed: Claimed) -> None:
        self._granted.clear()
        for job_id, most in claimed.most_by_job.items():
            self._claim(job_id, claimed.at_ms, most)
        for occurrence_id in claimed.adopted:
            if occurrence_id in self._left_behind:
                self._adopt(self._left_behind.pop(occurrence_id), claimed.at_ms)
        # What should not have been granted is not followed; what should have been is to be dispatched nevertheless.
        self.expected.dispatched |= self._granted - {message.slot for message in claimed.granted}
        self._in_hand |= {each.occurrence_id: each for each in claimed.granted if each.slot in self._granted}

    def _adopt(self, message: Message, at_ms: int) -> None:
        job = self._jobs[message.job_id]
        is_wanted = job.definition is not None and job.definition.enabled
        is_superseded = (
            message.slot in self._claimed_late and job.catch_up != "all" and job.latest_claimed_ms > message.due_at_ms
        )
        if not is_wanted or is_superseded:
            self.expected.given_up.add(message.slot)
            return
        self._granted.add(message.slot)
        if at_ms - message.due_at_ms > self._missed_after_ms:
            self._claimed_late.add(message.slot)

    def _die(self, accepted: Sequence[Message]) -> None:
        """Whatever was claimed and not confirmed is in nobody's hands; some of it the broker has."""
        has = {message.slot for message in accepted if message.occurrence_id in self._in_hand}
        self.expected.dispatched |= has
        self.expected.repeated |= has
        self._left_behind |= self._in_hand
        self._in_hand.clear()

    def _rest(self, at_ms: int) -> None:
        """Nothing may be left to do."""
        for message in self._in_hand.values():
            self.expected.neglected.append(f"{message}: claimed, and left at {at_ms}")
        for job_id, job in self._jobs.items():
            if job.next_due_ms is not None and job.next_due_ms <= at_ms:
                self.expected.neglected.append(f"job {job_id}: due at {job.next_due_ms}, left at {at_ms}")
            if job.wanted != job.planned and at_ms - job.edited_at_ms >= self._noticed_within_ms:
                self.expected.neglected.append(f"job {job_id}: an edit was left at {at_ms}")
