"""What one edit among many jobs costs, beside ``DatabaseScheduler``: ``python -m benchmarks edit_cost``.

CPU: the difference between windows with one ``save()`` and windows without, in turns. Then what the edits hold up: how
late a few jobs of one second are sent meanwhile; while ``DatabaseScheduler`` reads all jobs, it sends nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
django.setup()

from django.db.models import F  # noqa: E402 - the settings come first
from django_celery_beat.models import IntervalSchedule, PeriodicTask  # noqa: E402

from benchmarks.figures import report, tell  # noqa: E402
from benchmarks.jobs import (  # noqa: E402
    SCHEDULES,
    TASK,
    empty,
    make_tables,
    running_scheduler,
    seed,
    settle,
    wait_until_planned,
)
from benchmarks.peer import Peer  # noqa: E402
from benchmarks.usage import CpuMeter  # noqa: E402
from django_leased_cron.models import Occurrence  # noqa: E402

CPU_GOAL_MS = 20
LATENESS_GOAL_MS = 100
_SETTLED_AFTER_S = 15.0
_WINDOW_S = 1.0
_FREQUENT_JOBS = 5
_FREQUENT_FOR_S = 20
_EDITS_A_SECOND = 2

Edit = Callable[[], None]


def find_edits() -> Iterator[Edit]:
    """Yield edits as the admin makes them: another job each time is saved with another schedule."""
    interval = IntervalSchedule.objects.order_by("id")[0]
    for job in PeriodicTask.objects.filter(crontab__isnull=False).order_by("id")[:1000]:
        job.crontab, job.interval = None, interval
        yield job.save


def measure_cpu(edits: Iterator[Edit], *, rounds: int, jobs: int) -> None:
    with running_scheduler() as scheduler:
        wait_until_planned(jobs)
        settle()
        time.sleep(_SETTLED_AFTER_S)
        tell(f"{rounds} edits, each in a window of its own")
        idle, edited = [], []
        for _ in range(rounds):
            idle.append(_measure_window(scheduler.pid, lambda: None))
            edited.append(_measure_window(scheduler.pid, next(edits)))
    for index, (who, goal) in enumerate((("scheduler", CPU_GOAL_MS), ("its database connections", None))):
        usual_ms = median(window[index] for window in idle)
        report(f"CPU of one edit (ms): {who}", *(window[index] - usual_ms for window in edited), jobs=jobs, goal=goal)


def _measure_window(pid: int, edit: Edit) -> tuple[float, float]:
    meter = CpuMeter(pid)
    edit()
    meter.wait(_WINDOW_S)
    return meter.process_s * 1000, meter.database_s * 1000


def measure_lateness(edits: Iterator[Edit], *, jobs: int) -> None:
    """Send a few jobs every second, while others are edited and while none is."""
    second, _ = IntervalSchedule.objects.get_or_create(every=1, period=IntervalSchedule.SECONDS)
    with running_scheduler():
        for number in range(_FREQUENT_JOBS):
            PeriodicTask.objects.create(name=f"each second {number}", task=TASK, interval=second)
        wait_until_planned(jobs + _FREQUENT_JOBS)
        tell(f"{_FREQUENT_JOBS} jobs of one second")
        for edits_a_second in (0, _EDITS_A_SECOND):
            Occurrence.objects.all().delete()
            for _ in range(_FREQUENT_FOR_S):
                for _ in range(edits_a_second):
                    next(edits)()
                time.sleep(1.0)
            sent = Occurrence.objects.filter(sent_at_ms__isnull=False)
            late_ms = sent.values_list(F("sent_at_ms") - F("due_at_ms"), flat=True)
            measure = f"lateness of jobs of one second (ms), at {edits_a_second} edits a second"
            report(measure, *late_ms, jobs=jobs, goal=LATENESS_GOAL_MS)
    PeriodicTask.objects.filter(interval=second).delete()


def measure_peer(edits: Iterator[Edit], *, rounds: int, jobs: int) -> None:
    tell("DatabaseScheduler")
    cpu_ms, stalled_ms = [], []
    with Peer() as peer:
        for _ in range(rounds):
            next(edits)()
            reload = peer.reload()
            cpu_ms.append(reload.cpu_ms)
            stalled_ms.append(reload.took_ms)
    report("CPU of one edit (ms): DatabaseScheduler", *cpu_ms, jobs=jobs)
    report("nothing is sent at one edit for (ms): DatabaseScheduler", *stalled_ms, jobs=jobs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--peer-rounds", type=int, default=5)
    options = parser.parse_args()
    make_tables()
    try:
        seed(options.jobs, sharing=max(1, options.jobs // SCHEDULES))
        edits = find_edits()
        measure_cpu(edits, rounds=options.rounds, jobs=options.jobs)
        measure_lateness(edits, jobs=options.jobs)
        measure_peer(edits, rounds=options.peer_rounds, jobs=options.jobs)
    finally:
        empty()
    return 0


if __name__ == "__main__":
    sys.exit(main())
