"""How soon an edit is noticed, by the path it takes: ``python -m benchmarks edits --database postgres``.

From the moment before COMMIT is sent to the one at which the change of the plan can be read in the database. Each edit
comes at another phase of the scheduler's polls. Then the same without edit triggers, for some of the paths.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
django.setup()

from django.db import connection, transaction  # noqa: E402 - the settings come first
from django_celery_beat.models import IntervalSchedule, PeriodicTask  # noqa: E402

from benchmarks.figures import report, tell  # noqa: E402
from benchmarks.jobs import (  # noqa: E402
    TASK,
    empty,
    make_tables,
    no_edit_triggers,
    running_scheduler,
    seed,
    settle,
    wait_until_planned,
)
from django_leased_cron.conf import get_settings  # noqa: E402
from django_leased_cron.models import JobState  # noqa: E402
from tests.acceptance.waiting import wait_until  # noqa: E402

SHARING = 10
HELD_OPEN_S = 2.0
NOTIFIED_WITHIN_MS = 300
NOTICED_BESIDE_POLL_MS = 1000
_NOTICED_WITHIN_S = 60.0
_LOOK_S = 0.002
_GOLDEN = 0.618034

Plans = Mapping[int, tuple[str, int | None]]
Edit = Callable[[Sequence[int]], Sequence[int]]
"""Gets the ids of ten jobs that share a crontab, and returns those of the jobs that it edits."""


def disable(ids: Sequence[int]) -> Sequence[int]:
    PeriodicTask.objects.filter(id__in=ids).update(enabled=False)
    return ids


def save_one(ids: Sequence[int]) -> Sequence[int]:
    job = PeriodicTask.objects.get(id=ids[0])
    job.crontab, job.interval = None, IntervalSchedule.objects.first()
    job.save()
    return ids[:1]


def bulk_create(ids: Sequence[int]) -> Sequence[int]:
    old = PeriodicTask.objects.get(id=ids[0])
    jobs = [PeriodicTask(name=f"{old.name} new {n}", task=TASK, crontab=old.crontab) for n in range(len(ids))]
    return [job.id for job in PeriodicTask.objects.bulk_create(jobs)]


def bulk_update(ids: Sequence[int]) -> Sequence[int]:
    jobs = list(PeriodicTask.objects.filter(id__in=ids))
    interval = IntervalSchedule.objects.first()
    for job in jobs:
        job.crontab, job.interval = None, interval
    PeriodicTask.objects.bulk_update(jobs, ["crontab", "interval"])
    return ids


def update_shared_crontab(ids: Sequence[int]) -> Sequence[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE django_celery_beat_crontabschedule SET minute = '7,47'"
            " WHERE id = (SELECT crontab_id FROM django_celery_beat_periodictask WHERE id = %s)",
            [ids[0]],
        )
    return ids


def delete_one(ids: Sequence[int]) -> Sequence[int]:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_celery_beat_periodictask WHERE id = %s", [ids[0]])
    return ids[:1]


def update_and_hold(ids: Sequence[int]) -> Sequence[int]:
    disable(ids)
    time.sleep(HELD_OPEN_S)
    return ids


PATHS: Mapping[str, Edit] = {
    "QuerySet.update(enabled=False), 10 jobs": disable,
    "save(), 1 job": save_one,
    "bulk_create(), 10 jobs": bulk_create,
    "bulk_update(), 10 jobs": bulk_update,
    "SQL UPDATE of a crontab that 10 jobs share": update_shared_crontab,
    "SQL DELETE, 1 job": delete_one,
    "in a transaction held open for 2 s, 10 jobs": update_and_hold,
}
WITHOUT_TRIGGERS = ("QuerySet.update(enabled=False), 10 jobs", "SQL UPDATE of a crontab that 10 jobs share")


def measure(edit: Edit, ids: Sequence[int]) -> float:
    """Return the milliseconds from the COMMIT of one edit to the change of the plan of every job that it concerns."""
    before = read_plans(ids)
    with transaction.atomic():
        edited = edit(ids)
        committed_at = time.perf_counter()
    wait_until(
        lambda: _is_noticed(before, edited),
        f"the edit of {edited} to be noticed",
        within_s=_NOTICED_WITHIN_S,
        every_s=_LOOK_S,
    )
    return (time.perf_counter() - committed_at) * 1000


def _is_noticed(before: Plans, edited: Sequence[int]) -> bool:
    now = read_plans(edited)
    return all(now.get(job_id) != before.get(job_id) for job_id in edited)


def read_plans(ids: Sequence[int]) -> Plans:
    rows = JobState.objects.filter(job_id__in=ids).values_list("job_id", "inputs", "next_due_at_ms")
    return {job_id: (inputs, next_due_at_ms) for job_id, inputs, next_due_at_ms in rows}


def find_victims() -> Iterator[Sequence[int]]:
    """Yield the jobs of one crontab after the other; each is edited once."""
    with_crontab = PeriodicTask.objects.filter(crontab__isnull=False).order_by("id")
    ids = list(with_crontab.values_list("id", flat=True))
    yield from (ids[start : start + SHARING] for start in range(0, len(ids), SHARING))


def measure_paths(
    paths: Sequence[str], victims: Iterator[Sequence[int]], *, rounds: int, jobs: int, goal_ms: float, remark: str = ""
) -> None:
    poll_interval_s = get_settings().timing.poll_interval_s
    measure(disable, next(victims))  # the scheduler may still be at its first look at all jobs
    for path in paths:
        tell(f"{path}{remark}")
        times = []
        for number in range(rounds):
            time.sleep(number * _GOLDEN % 1 * poll_interval_s)
            times.append(measure(PATHS[path], next(victims)))
        report(f"edit noticed after (ms): {path}{remark}", *times, jobs=jobs, goal=goal_ms)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    poll_ms = get_settings().timing.poll_interval_s * 1000
    goal_ms = poll_ms + NOTICED_BESIDE_POLL_MS
    make_tables()
    try:
        seed(options.jobs, sharing=SHARING)
        with running_scheduler():
            wait_until_planned(options.jobs)
            settle()
            notified_ms = NOTIFIED_WITHIN_MS if connection.vendor == "postgresql" else goal_ms
            victims = find_victims()
            measure_paths(list(PATHS), victims, rounds=options.rounds, jobs=options.jobs, goal_ms=notified_ms)
        with no_edit_triggers(), running_scheduler():
            measure_paths(
                WITHOUT_TRIGGERS,
                victims,
                rounds=options.rounds,
                jobs=options.jobs,
                goal_ms=goal_ms,
                remark=", without triggers",
            )
    finally:
        empty()
    return 0


if __name__ == "__main__":
    sys.exit(main())
