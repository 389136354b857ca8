"""Many jobs of which none is due for days, and the scheduler that plans them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from django.core.management import call_command
from django.db import connection
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from benchmarks.figures import tell
from django_leased_cron.edit_triggers import install, uninstall
from django_leased_cron.models import JobEdit, JobState, Occurrence, SchedulerLease
from example_project.settings import DATA_DIR
from tests.acceptance.processes import Process
from tests.acceptance.waiting import wait_until

TASK = "example_project.tasks.noop"
SCHEDULES = 360
"""How many different ones the jobs have, if it is not said."""
_AT_ONCE = 2000
_PLANNED_WITHIN_S = 600.0
_EXIT_WITHIN_S = 30.0


def make_tables() -> None:
    call_command("migrate", verbosity=0)
    empty()


def empty() -> None:
    """Remove all jobs and what is known of them, without a query for each."""
    for model in (Occurrence, JobState, PeriodicTask, CrontabSchedule, IntervalSchedule, SchedulerLease, JobEdit):
        model.objects.all()._raw_delete(connection.alias)


def seed(count: int, *, sharing: int) -> None:
    """Create jobs in groups that share a schedule: a crontab, an interval, a crontab, …

    No crontab restricts its hours: ``DatabaseScheduler`` leaves such jobs out of its memory at other times of day.
    """
    tell(f"{count} jobs")
    groups = range(-(-count // sharing))
    day = (datetime.now(UTC) + timedelta(days=15)).day
    crontabs = CrontabSchedule.objects.bulk_create(
        [
            CrontabSchedule(minute=str(group % 60), hour="*" if group % 4 else "*/2", day_of_month=str(day))
            for group in groups[::2]
        ],
        batch_size=_AT_ONCE,
    )
    intervals = IntervalSchedule.objects.bulk_create(
        [IntervalSchedule(every=3 + group % 40, period=IntervalSchedule.DAYS) for group in groups[1::2]],
        batch_size=_AT_ONCE,
    )
    PeriodicTask.objects.bulk_create(
        (_build_job(number, number // sharing, crontabs, intervals) for number in range(count)), batch_size=_AT_ONCE
    )
    settle()


def _build_job(
    number: int, group: int, crontabs: list[CrontabSchedule], intervals: list[IntervalSchedule]
) -> PeriodicTask:
    schedule = {"interval": intervals[group // 2]} if group % 2 else {"crontab": crontabs[group // 2]}
    kwargs = f'{{"tenant": "t{number % 500}"}}'
    return PeriodicTask(name=f"job {number:06d}", task=TASK, args=f"[{number}]", kwargs=kwargs, **schedule)


def wait_until_planned(count: int) -> None:
    """Return when that many jobs are planned, and no note of an edit is left over."""
    planned = JobState.objects.filter(next_due_at_ms__isnull=False)
    wait_until(
        lambda: planned.count() == count and not JobEdit.objects.exists(),
        f"{count} jobs to be planned",
        within_s=_PLANNED_WITHIN_S,
        every_s=0.25,
    )


def settle() -> None:
    """Do now what the database would do at a time of its own, in the middle of a measurement."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")
            cursor.execute("CHECKPOINT")


@contextmanager
def no_edit_triggers() -> Iterator[None]:
    uninstall(connection)
    try:
        yield
    finally:
        install(connection)


@contextmanager
def running_scheduler(*, log_level: str = "INFO") -> Iterator[Process]:
    """Run ``manage.py run_leased_scheduler`` with the settings of this process, from being ready to the exit."""
    scheduler = start_scheduler(log_level=log_level)
    try:
        scheduler.wait_for_line("Ready as", within_s=_EXIT_WITHIN_S)
        yield scheduler
    finally:
        stop(scheduler)


def start_scheduler(*, log_level: str) -> Process:
    """Start one and do not wait."""
    number = len(list(DATA_DIR.glob("scheduler-*.log")))
    return Process(
        "scheduler",
        ["manage.py", "run_leased_scheduler"],
        environment={**os.environ, "EXAMPLE_LOG_LEVEL": log_level},
        log=DATA_DIR / f"scheduler-{number}.log",
    )


def stop(scheduler: Process) -> None:
    """Stop it politely, or else at once."""
    if scheduler.is_alive:
        scheduler.terminate()
    try:
        scheduler.wait_for_exit(within_s=_EXIT_WITHIN_S)
    finally:
        scheduler.kill()
