"""How soon an edit is noticed, by the path it takes: ``python -m benchmarks edits --database postgres``.

From the moment before COMMIT is sent to the one at which the change of the plan can be read in the database. Each edit
comes at another phase of the scheduler's polls. Then the same without edit triggers, for some of the paths.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
django.setup()

from django.db import connection, transaction  # noqa: E402 - the settings come first
from django.test.utils import setup_test_environment  # noqa: E402
from django_celery_beat.models import CrontabSchedule, PeriodicTask  # noqa: E402

from benchmarks.figures import report, tell  # noqa: E402
from benchmarks.jobs import (  # noqa: E402
    empty,
    make_tables,
    no_edit_triggers,
    running_scheduler,
    seed,
    settle,
    wait_until_planned,
)
from django_leased_cron.conf import get_settings  # noqa: E402
from tests.acceptance.edits import EDITS, TASK, TRUNCATE, Edit, update  # noqa: E402
from tests.acceptance.plans import have_changed, read_plans  # noqa: E402
from tests.acceptance.waiting import wait_until  # noqa: E402

SHARING = 10
HELD_OPEN_S = 2.0
NOTIFIED_WITHIN_MS = 300
NOTICED_BESIDE_POLL_MS = 1000
_NOTICED_WITHIN_S = 60.0
_LOOK_S = 0.002
_VICTIM = "victim"
_GOLDEN = 0.618034


def update_and_hold(ids: Sequence[int]) -> Sequence[int]:
    update(ids)
    time.sleep(HELD_OPEN_S)
    return ids


PATHS: Mapping[str, Edit] = {
    **{name: edit for name, edit in EDITS.items() if name != TRUNCATE},
    f"in a transaction held open for {HELD_OPEN_S:g} s, 10 jobs": update_and_hold,
}
WITHOUT_TRIGGERS = ("QuerySet.update(), 10 jobs", "SQL UPDATE of a crontab that 10 jobs share")


@contextmanager
def victims(count: int) -> Iterator[Sequence[Sequence[int]]]:
    """Create groups of jobs that share a crontab, wait until they are planned, and delete what an edit leaves."""
    groups = [_create_group() for _ in range(count)]
    ids = [job_id for group in groups for job_id in group]
    wait_until(lambda: len(read_plans(ids)) == len(ids), "the victims to be planned", within_s=_NOTICED_WITHIN_S)
    yield groups
    PeriodicTask.objects.filter(name__startswith=_VICTIM).delete()


def _create_group() -> Sequence[int]:
    crontab = CrontabSchedule.objects.create(minute="10", day_of_month="31")
    jobs = [PeriodicTask(name=f"{_VICTIM} {crontab.id}.{n}", task=TASK, crontab=crontab) for n in range(SHARING)]
    PeriodicTask.objects.bulk_create(jobs)
    return list(PeriodicTask.objects.filter(crontab=crontab).values_list("id", flat=True))


def measure(edit: Edit, ids: Sequence[int]) -> float:
    """Return the milliseconds from the COMMIT of one edit to the change of the plan of every job that it concerns."""
    before = read_plans(ids)
    with transaction.atomic():
        edited = edit(ids)
        committed_at = time.perf_counter()
    wait_until(
        lambda: have_changed(before, edited),
        f"the edit of {edited} to be noticed",
        within_s=_NOTICED_WITHIN_S,
        every_s=_LOOK_S,
    )
    return (time.perf_counter() - committed_at) * 1000


def measure_path(
    name: str, edit: Edit, groups: Iterable[Sequence[int]], *, jobs: int, goal_ms: float, remark: str = ""
) -> None:
    tell(f"{name}{remark}")
    poll_interval_s = get_settings().timing.poll_interval_s
    times = []
    for number, group in enumerate(groups):
        time.sleep(number * _GOLDEN % 1 * poll_interval_s)
        times.append(measure(edit, group))
    report(f"edit noticed after (ms): {name}{remark}", *times, jobs=jobs, goal=goal_ms)


def create_one_by_one(count: int) -> Iterator[Sequence[int]]:
    """Yield groups that are the only jobs there are."""
    for _ in range(count):
        with victims(1) as (group,):
            yield group


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    jobs, rounds = options.jobs, options.rounds
    goal_ms = get_settings().timing.poll_interval_s * 1000 + NOTICED_BESIDE_POLL_MS
    notified_ms = NOTIFIED_WITHIN_MS if connection.vendor == "postgresql" else goal_ms
    setup_test_environment()  # the admin's forms are read from what its pages were made of
    make_tables()
    try:
        seeded = jobs - rounds * SHARING
        seed(seeded, sharing=SHARING)
        with running_scheduler():
            wait_until_planned(seeded)
            settle()
            for name, edit in PATHS.items():
                with victims(rounds) as groups:
                    measure_path(name, edit, groups, jobs=jobs, goal_ms=notified_ms)
        with no_edit_triggers(), running_scheduler():
            for name in WITHOUT_TRIGGERS:
                with victims(rounds) as groups:
                    measure_path(name, PATHS[name], groups, jobs=jobs, goal_ms=goal_ms, remark=", without triggers")
        empty()
        settle()
        with running_scheduler():
            measure_path(TRUNCATE, EDITS[TRUNCATE], create_one_by_one(rounds), jobs=SHARING, goal_ms=notified_ms)
    finally:
        empty()
    return 0


if __name__ == "__main__":
    sys.exit(main())
