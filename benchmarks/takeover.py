"""How soon a new holder sends: ``python -m benchmarks takeover --database postgres``.

All jobs are planned, and one of them is due every second. A holder stops and another process starts; or it is killed
and a standby is there. What is measured ends with the first batch that the new holder has sent.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from datetime import datetime, timedelta

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
from django_leased_cron.models import Occurrence, SchedulerLease  # noqa: E402
from tests.acceptance.processes import Process  # noqa: E402
from tests.acceptance.waiting import wait_until  # noqa: E402

FIRST_SENT_GOAL_MS = 500
LATE_AFTER_KILL_GOAL_MS = 1700
_READY, _ACQUIRED, _SENT = "Ready as", "lease acquired", ": sent "
_TIME = re.compile(r"^(\d\d:\d\d:\d\d\.\d{3}) ")
_HELD_FOR_S = 3.0


def find_instant(process: Process, part: str) -> datetime:
    """Return when a process wrote the first line with this part."""
    match = _TIME.match(process.wait_for_line(part))
    assert match is not None  # noqa: S101 - the example project's format
    return datetime.strptime(match[1], "%H:%M:%S.%f")  # noqa: DTZ007 - compared with others of the same machine


def measure_ms(process: Process, start: str, end: str) -> float:
    passed = find_instant(process, end) - find_instant(process, start)
    return (passed % timedelta(days=1)) / timedelta(milliseconds=1)


def measure_starts(rounds: int, *, jobs: int) -> None:
    """Start a process where nobody holds the lease."""
    tell(f"{rounds} starts")
    ready_ms, acquired_ms = [], []
    for _ in range(rounds):
        with running_scheduler(log_level="DEBUG") as process:
            ready_ms.append(measure_ms(process, _READY, _SENT))
            acquired_ms.append(measure_ms(process, _ACQUIRED, _SENT))
        time.sleep(1.0)  # so that a job is due when the next one starts
    report("first sent (ms): after a start, from being ready", *ready_ms, jobs=jobs, goal=FIRST_SENT_GOAL_MS)
    report("first sent (ms): after a start, from the lease", *acquired_ms, jobs=jobs, goal=FIRST_SENT_GOAL_MS)


def measure_rescues(rounds: int, *, jobs: int) -> None:
    """Kill the holder while another process stands by."""
    tell(f"{rounds} holders killed")
    acquired_ms, late_ms = [], []
    for _ in range(rounds):
        with running_scheduler(log_level="DEBUG") as holder:
            holder.wait_for_line(_SENT)
            with running_scheduler(log_level="DEBUG") as standby:
                time.sleep(_HELD_FOR_S)
                holder.kill()
                acquired_ms.append(measure_ms(standby, _ACQUIRED, _SENT))
                late_ms.append(_find_latest_ms())
    report("first sent (ms): after a kill, from the lease", *acquired_ms, jobs=jobs, goal=FIRST_SENT_GOAL_MS)
    report("lateness of what a kill delays most (ms)", *late_ms, jobs=jobs, goal=LATE_AFTER_KILL_GOAL_MS)


def _find_latest_ms() -> int:
    """Return how late the latest occurrence was that the present holder claimed first, once its batch is confirmed."""
    epoch = SchedulerLease.objects.values_list("epoch", flat=True).get()
    sent = Occurrence.objects.filter(epoch=epoch, attempt=1, sent_at_ms__isnull=False)
    late_ms = sent.values_list(F("sent_at_ms") - F("due_at_ms"), flat=True)
    latest: int = max(wait_until(lambda: list(late_ms.all()), "a confirm", within_s=_HELD_FOR_S))
    return latest


def measure(jobs: int, *, rounds: int) -> None:
    empty()
    seed(jobs, sharing=max(1, jobs // SCHEDULES))
    second, _ = IntervalSchedule.objects.get_or_create(every=1, period=IntervalSchedule.SECONDS)
    PeriodicTask.objects.create(name="each second", task=TASK, interval=second)
    with running_scheduler():
        wait_until_planned(jobs + 1)
    settle()
    time.sleep(1.0)
    measure_starts(rounds, jobs=jobs)
    measure_rescues(rounds, jobs=jobs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1000, 100_000])
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    make_tables()
    try:
        for jobs in options.jobs:
            measure(jobs, rounds=options.rounds)
    finally:
        empty()
    return 0


if __name__ == "__main__":
    sys.exit(main())
