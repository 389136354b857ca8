"""Projects that store local time, and projects that move to another time zone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone
from django_celery_beat.models import ClockedSchedule, PeriodicTask
from pytest_django import Settings

from django_leased_cron.core.outbox import ChangeKind, JobRun
from tests.integration.scheduling_bench import NOW_MS, SchedulingBench

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
NOW = datetime.fromtimestamp(NOW_MS / 1000, UTC)
FOLD_MS = 1_825_567_200_000  # 2027-11-07 06:00 UTC: in New York the clocks go from 02:00 back to 01:00


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """The two settings: ``TIME_ZONE`` and ``USE_TZ``."""

    name: str
    use_tz: bool = False

    def __str__(self) -> str:
        return f"{self.name}{' aware' if self.use_tz else ''}"


AWARE_UTC, AWARE_TOKYO = Zone(name="UTC", use_tz=True), Zone(name="Asia/Tokyo", use_tz=True)
TOKYO, NEW_YORK, NAIVE_UTC = Zone(name="Asia/Tokyo"), Zone(name="America/New_York"), Zone(name="UTC")
LOCAL = [TOKYO, NEW_YORK]
MOVES = [
    (AWARE_UTC, AWARE_TOKYO),
    (TOKYO, NEW_YORK),
    (NEW_YORK, TOKYO),
    (TOKYO, NAIVE_UTC),
    (TOKYO, AWARE_UTC),
    (AWARE_UTC, NEW_YORK),
]


class Project:
    """A project all of whose processes are restarted with other settings."""

    def __init__(self, alias: str, settings: Settings) -> None:
        self._alias = alias
        self._settings = settings

    def start(self, zone: Zone) -> SchedulingBench:
        self._settings.USE_TZ = zone.use_tz
        self._settings.TIME_ZONE = zone.name
        connections[self._alias].close()
        bench = SchedulingBench(self._alias)
        bench.hold_lease()
        return bench


@pytest.fixture
def project(database_alias: str, settings: Settings) -> Iterator[Project]:
    yield Project(database_alias, settings)
    connections[database_alias].close()


def stored(at: datetime) -> datetime:
    """Return an instant as the project's code hands it to Django."""
    return at if timezone.is_aware(timezone.now()) else timezone.make_naive(at, timezone.get_default_timezone())


def dispatch(bench: SchedulingBench, now_ms: int) -> list[tuple[int, int]]:
    """Claim what is due, confirm it and tell the jobs' rows; return job and due time of each."""
    claimed = bench.claim(now_ms).claimed
    if not claimed:
        return []
    bench.confirm(claimed, now_ms=now_ms)
    jobs = sorted({occurrence.job_id for occurrence in claimed})
    runs = [JobRun(job_id=job_id, runs=1, last_run_at_ms=now_ms, finished=False) for job_id in jobs]
    assert bench.outbox(now_ms).record_runs(runs) == []
    return [(occurrence.job_id, occurrence.due_at_ms) for occurrence in claimed]


@pytest.mark.parametrize("zone", LOCAL, ids=str)
def test_local_time_in_rows_means_what_the_project_means(project: Project, zone: Zone) -> None:
    """A clocked time, a start and an end are due at their instants."""
    with closing(project.start(zone)) as bench:
        clock = bench.insert(ClockedSchedule(clocked_time=stored(NOW + timedelta(hours=2))))
        clocked = bench.job(clocked=clock, one_off=True)
        later = bench.every(3600, start_time=stored(NOW + timedelta(minutes=90)))
        ended = bench.every(3600, expires=stored(NOW + timedelta(minutes=59)))
        bench.plan()
        due_in_ms = [bench.state(job).next_due_at_ms for job in (clocked, later, ended)]
        assert due_in_ms == [NOW_MS + 2 * HOUR_MS, NOW_MS + 90 * MINUTE_MS, None]


@pytest.mark.parametrize("zone", LOCAL, ids=str)
def test_another_schedulers_run_is_known_from_our_own_in_local_time(project: Project, zone: Zone) -> None:
    """By a second, however far the zone is from UTC."""
    with closing(project.start(zone)) as bench:
        job = bench.every(3600)
        bench.plan()
        ran_at_ms = NOW_MS + HOUR_MS
        assert dispatch(bench, ran_at_ms) == [(job.pk, ran_at_ms)]
        assert bench.plan(ran_at_ms) == []
        ran_at = datetime.fromtimestamp(ran_at_ms / 1000, UTC) + timedelta(seconds=5)
        bench.edit(job, last_run_at=stored(ran_at))
        assert bench.plan(ran_at_ms + MINUTE_MS) == [ChangeKind.RUN_BY_OTHER]
        assert bench.state(job).next_due_at_ms == ran_at_ms + HOUR_MS + 5000
        assert bench.plan(ran_at_ms + MINUTE_MS) == []


@pytest.mark.parametrize("zone", LOCAL, ids=str)
@pytest.mark.parametrize("last_run_at", ["0001-01-01 00:00:00", "9999-12-31 23:00:00"])
def test_last_run_that_another_zone_could_not_write_harms_nothing(
    project: Project, zone: Zone, last_run_at: str
) -> None:
    """It says nothing of when the job is due, and is looked at once."""
    with closing(project.start(zone)) as bench:
        job = bench.every(60)
        with connections[bench.alias].cursor() as cursor:
            cursor.execute("UPDATE django_celery_beat_periodictask SET last_run_at = %s", [last_run_at])
        assert bench.plan() == [ChangeKind.NEW]
        assert (bench.state(job).error, bench.state(job).next_due_at_ms) == ("", NOW_MS + MINUTE_MS)
        assert bench.plan() == []


def test_hour_that_local_clocks_repeat_is_no_other_scheduler(project: Project) -> None:
    """The last run is later than the next one by the reading of the clocks."""
    with closing(project.start(NEW_YORK)) as bench:
        job = bench.every(600)
        bench.plan(FOLD_MS - HOUR_MS)
        for due_at_ms in range(FOLD_MS - 50 * MINUTE_MS, FOLD_MS + 2 * HOUR_MS, 10 * MINUTE_MS):
            assert dispatch(bench, due_at_ms) == [(job.pk, due_at_ms)]
            assert bench.plan(due_at_ms) == []


@pytest.mark.parametrize(("before", "after"), MOVES, ids=str)
def test_move_to_another_zone_repeats_and_loses_nothing(project: Project, before: Zone, after: Zone) -> None:
    """Crontabs have zones of their own and intervals none: what came due at the restart is sent, once."""
    with closing(project.start(before)) as bench:
        jobs = [bench.every(60), bench.every(86_400), bench.crontab("*"), bench.crontab("1")]
        bench.plan()
        dispatch(bench, NOW_MS + MINUTE_MS)
        plans = {job.pk: bench.state(job).next_due_at_ms for job in jobs}
    with closing(project.start(after)) as bench:
        restarted_ms = NOW_MS + 2 * MINUTE_MS + 5000
        assert bench.plan(restarted_ms) == []
        assert {job.pk: bench.state(job).next_due_at_ms for job in jobs} == plans
        due_ms = NOW_MS + 2 * MINUTE_MS
        assert sorted(dispatch(bench, restarted_ms)) == [(jobs[0].pk, due_ms), (jobs[2].pk, due_ms)]
        assert dispatch(bench, restarted_ms) == []
        assert bench.plan(restarted_ms) == []
        assert {job.total_run_count for job in bench.jobs()} == {0, 1, 2}


@pytest.mark.parametrize(("before", "after"), [(TOKYO, NEW_YORK), (NEW_YORK, TOKYO)], ids=str)
def test_local_time_is_read_on_the_new_clocks_after_a_move(project: Project, before: Zone, after: Zone) -> None:
    """As everybody reads the row then; PostgreSQL knows the instant, which stays."""
    noon: Any = datetime(2027, 2, 1, 12, tzinfo=UTC).replace(tzinfo=None)
    with closing(project.start(before)) as bench:
        clocked = bench.job(clocked=bench.insert(ClockedSchedule(clocked_time=noon)), one_off=True)
        bench.plan()
        planned_ms = bench.state(clocked).next_due_at_ms
        assert planned_ms == timezone.make_aware(noon).timestamp() * 1000
    with closing(project.start(after)) as bench:
        shown: Any = PeriodicTask.objects.using(bench.alias).select_related("clocked").get().clocked
        bench.plan()
        assert bench.state(clocked).next_due_at_ms == timezone.make_aware(shown.clocked_time).timestamp() * 1000
        assert (bench.state(clocked).next_due_at_ms == planned_ms) == (bench.alias == "postgres")
        assert bench.plan() == []
