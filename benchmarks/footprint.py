"""What many jobs cost while nothing is due: ``python -m benchmarks footprint --database postgres``.

Memory: the largest resident size of the scheduler's process, above that of a bare process of the same project. CPU: of
the scheduler and its database together, with edit triggers and without, by the minute.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
django.setup()

from django_celery_beat.models import PeriodicTask  # noqa: E402 - the settings come first

from benchmarks.figures import report, tell  # noqa: E402
from benchmarks.jobs import (  # noqa: E402
    SCHEDULES,
    empty,
    make_tables,
    no_edit_triggers,
    running_scheduler,
    seed,
    settle,
    wait_until_planned,
)
from benchmarks.usage import CpuMeter, read_peak_mb  # noqa: E402

MEMORY_GOAL_MB = 40
IDLE_GOAL_S = 1.5
IDLE_WITHOUT_TRIGGERS_GOAL_S = 3.0
_SETTLED_AFTER_S = 20.0
_EDITS = 10


def read_bare_mb() -> float:
    answer = subprocess.run([sys.executable, "-m", "benchmarks.bare"], check=True, capture_output=True, text=True)
    return float(answer.stdout)


def measure_first_plans(jobs: int, *, bare_mb: float) -> None:
    """Plan all jobs from nothing, edit some, and look at the memory."""
    started_at = time.perf_counter()
    with running_scheduler() as scheduler:
        wait_until_planned(jobs)
        report("all jobs planned for the first time (s)", time.perf_counter() - started_at, jobs=jobs)
        for job in PeriodicTask.objects.all()[:_EDITS]:
            job.enabled = False
            job.save()
        wait_until_planned(jobs - _EDITS)
        _report_memory("first plans and edits", read_peak_mb(scheduler.pid) - bare_mb, jobs=jobs)


def measure_idle(jobs: int, *, minutes: float, bare_mb: float, remark: str, goal_s: float) -> None:
    """Take over what is planned, and do nothing."""
    settle()
    with running_scheduler() as scheduler:
        time.sleep(_SETTLED_AFTER_S)
        tell(f"idle for {minutes:g} minutes{remark}")
        meter = CpuMeter(scheduler.pid)
        meter.wait(minutes * 60)
        process_s, database_s = meter.process_s / minutes, meter.database_s / minutes
        report(f"idle CPU (s a minute): scheduler{remark}", process_s, jobs=jobs)
        report(f"idle CPU (s a minute): database{remark}", database_s, jobs=jobs)
        report(f"idle CPU (s a minute): both{remark}", process_s + database_s, jobs=jobs, goal=goal_s)
        _report_memory(f"takeover and idle{remark}", read_peak_mb(scheduler.pid) - bare_mb, jobs=jobs)


def _report_memory(what: str, more_mb: float, *, jobs: int) -> None:
    report(f"peak memory above a bare process (MB): {what}", more_mb, jobs=jobs, goal=MEMORY_GOAL_MB)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--schedules", type=int, default=SCHEDULES, help="How many different ones the jobs have.")
    parser.add_argument("--minutes", type=float, default=3.0)
    options = parser.parse_args()
    make_tables()
    try:
        seed(options.jobs, sharing=max(1, options.jobs // options.schedules))
        bare_mb = read_bare_mb()
        report("memory of a bare process (MB)", bare_mb, jobs=options.jobs)
        measure_first_plans(options.jobs, bare_mb=bare_mb)
        measure_idle(options.jobs, minutes=options.minutes, bare_mb=bare_mb, remark="", goal_s=IDLE_GOAL_S)
        with no_edit_triggers():
            measure_idle(
                options.jobs,
                minutes=options.minutes,
                bare_mb=bare_mb,
                remark=", without triggers",
                goal_s=IDLE_WITHOUT_TRIGGERS_GOAL_S,
            )
    finally:
        empty()
    return 0


if __name__ == "__main__":
    sys.exit(main())
