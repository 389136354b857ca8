"""Seconds in which many jobs come due together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from django_leased_cron.core.recurrence import ClockedRecurrence, IntervalRecurrence
from django_leased_cron.core.schedule import JobSchedule, next_due
from django_leased_cron.job_tools.upcoming import JobPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Herd:
    """The fullest second, of several."""

    at_ms: int
    jobs: Sequence[str]
    seconds: int
    """How many seconds there are with as many jobs as make a herd."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timetable:
    """What jobs share that come due in the same seconds; counted once, however many jobs share it."""

    schedule: JobSchedule
    base_ms: int

    def iterate(self, *, from_ms: int, until_ms: int) -> Iterator[int]:
        due_at_ms = next_due(self.schedule, after_ms=from_ms - 1, base_ms=self.base_ms)
        while due_at_ms is not None and due_at_ms < until_ms:
            yield due_at_ms // 1000
            due_at_ms = next_due(self.schedule, after_ms=due_at_ms, base_ms=self.base_ms)


def find_herd(plans: Iterable[JobPlan], *, from_ms: int, until_ms: int, size: int) -> Herd | None:
    """Return the second in which most jobs come due, if they are ``size`` or more.

    Jobs with jitter do not count: they have been spread.
    """
    jobs = [(plan, timetable) for plan in plans if not plan.jitter_s and (timetable := _find_timetable(plan))]
    due_in: Counter[int] = Counter()
    for timetable, sharers in Counter(timetable for _, timetable in jobs).items():
        for second in set(timetable.iterate(from_ms=from_ms, until_ms=until_ms)):
            due_in[second] += sharers
    herds = {second: count for second, count in due_in.items() if count >= size}
    if not herds:
        return None
    fullest = min(herds, key=lambda second: (-herds[second], second))
    return Herd(
        at_ms=fullest * 1000,
        jobs=[
            plan.job
            for plan, timetable in jobs
            if any(True for _ in timetable.iterate(from_ms=fullest * 1000, until_ms=fullest * 1000 + 1000))
        ],
        seconds=len(herds),
    )


def _find_timetable(plan: JobPlan) -> _Timetable | None:
    schedule, due_at_ms = plan.schedule, plan.next_due_at_ms
    if schedule is None or due_at_ms is None:
        return None
    if schedule.one_off:
        return _Timetable(schedule=JobSchedule(recurrence=ClockedRecurrence(at_ms=due_at_ms)), base_ms=0)
    base_ms = 0
    if isinstance(schedule.recurrence, IntervalRecurrence):
        every_ms = schedule.recurrence.every_ms
        # To the second where that keeps it in its second: so 60 timetables hold all jobs of "every minute".
        base_ms = due_at_ms % every_ms if every_ms % 1000 else due_at_ms // 1000 * 1000 % every_ms
    return _Timetable(schedule=schedule, base_ms=base_ms)
