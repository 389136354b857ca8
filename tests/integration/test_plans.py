"""Noticing edits and writing plans, on real databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connections, transaction
from django_celery_beat.models import ClockedSchedule, CrontabSchedule, IntervalSchedule, PeriodicTask

from django_leased_cron.core.outbox import ChangeKind, JobRun, TermLost
from django_leased_cron.models import JobPolicy, JobState, Occurrence
from tests.integration.scheduling_bench import NOW_MS, SchedulingBench

MINUTE_MS = 60_000
NOW = datetime.fromtimestamp(NOW_MS / 1000, UTC)


def test_new_job_is_planned_and_then_left_alone(bench: SchedulingBench) -> None:
    """A pass over unchanged jobs finds nothing."""
    job = bench.every(60)
    assert bench.plan() == [ChangeKind.NEW]
    assert bench.state(job).next_due_at_ms == NOW_MS + MINUTE_MS
    assert bench.plan() == []


def test_plan_of_a_stale_term_replaces_nothing(bench: SchedulingBench) -> None:
    """A frozen holder's plan arrives after a takeover."""
    job = bench.every(60)
    bench.plan()
    bench.edit(job, start_time=NOW + timedelta(hours=1))
    bench.hold_lease(epoch=2, holder_id="other")
    assert isinstance(bench.plan(epoch=1), TermLost)
    assert bench.state(job).next_due_at_ms == NOW_MS + MINUTE_MS


def test_disabled_job_is_unplanned_and_starts_from_now_when_enabled(bench: SchedulingBench) -> None:
    """Neither the slot it was disabled over nor an old cadence comes back."""
    job = bench.every(60)
    bench.plan()
    bench.edit(job, enabled=False)
    assert bench.plan(NOW_MS + MINUTE_MS + 10) == [ChangeKind.DISABLED]
    assert bench.states() == [("skipped", "disabled", 0)]
    bench.edit(job, enabled=True)
    assert bench.plan(NOW_MS + 10 * MINUTE_MS + 7) == [ChangeKind.NEW]
    assert bench.state(job).next_due_at_ms == NOW_MS + 11 * MINUTE_MS + 7


def test_edit_of_a_shared_schedule_row_is_noticed_for_each_job(bench: SchedulingBench) -> None:
    """By raw SQL, past every signal."""
    jobs = [bench.crontab("10")]
    jobs.append(bench.job(crontab=jobs[0].crontab))
    bench.plan()
    with connections[bench.alias].cursor() as cursor:
        cursor.execute("UPDATE django_celery_beat_crontabschedule SET minute = '20'")
    assert bench.plan() == [ChangeKind.EDITED, ChangeKind.EDITED]
    assert {bench.state(job).next_due_at_ms for job in jobs} == {NOW_MS + 20 * MINUTE_MS}


def test_edit_that_differs_in_case_only_is_noticed(bench: SchedulingBench) -> None:
    """Collations that ignore case must not hide an edit."""
    bench.crontab("0")
    CrontabSchedule.objects.using(bench.alias).update(day_of_week="mon")
    bench.plan()
    CrontabSchedule.objects.using(bench.alias).update(day_of_week="MON")
    assert bench.plan() == [ChangeKind.EDITED]


@pytest.mark.parametrize("database_alias", ["mysql"], indirect=True)
def test_table_in_the_character_set_of_long_ago_is_compared(bench: SchedulingBench) -> None:
    """The default of MariaDB before 11.6: what is compared with it comes in that of the connection."""
    with _table_in(bench.alias, "latin1"):
        job = bench.every(60)
        assert bench.plan() == [ChangeKind.NEW]
        bench.edit(job, args="[2]")
        assert bench.plan() == []


@contextmanager
def _table_in(alias: str, character_set: str) -> Iterator[None]:
    table = JobState._meta.db_table
    with connections[alias].cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} CONVERT TO CHARACTER SET {character_set}")
        try:
            yield
        finally:
            cursor.execute(f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4")


@pytest.mark.parametrize("columns", [{"args": "[2]"}, {"queue": "other"}, {"description": "new"}])
def test_edit_of_something_else_leaves_the_plan_alone(bench: SchedulingBench, columns: dict[str, Any]) -> None:
    """Only what decides when a job is due is compared."""
    job = bench.every(60)
    bench.plan()
    bench.edit(job, **columns)
    assert bench.plan() == []


def test_new_expiry_keeps_the_cadence(bench: SchedulingBench) -> None:
    """It ends the job; it does not shift it."""
    job = bench.every(60)
    bench.plan()
    bench.edit(job, expires=NOW + timedelta(days=1))
    assert bench.plan(NOW_MS + 30_000) == [ChangeKind.EDITED]
    assert bench.state(job).next_due_at_ms == NOW_MS + MINUTE_MS


def test_another_format_of_the_inputs_is_rewritten_and_not_planned_anew(bench: SchedulingBench) -> None:
    """A rolling deploy that plans from one more column looks like no edit, and overdue slots stay."""
    job = bench.every(60)
    bench.plan()
    JobState.objects.using(bench.alias).update(inputs_format=0, inputs="what an older version wrote")
    assert bench.plan(NOW_MS + 2 * MINUTE_MS) == [ChangeKind.REFORMATTED]
    assert bench.state(job).next_due_at_ms == NOW_MS + MINUTE_MS
    assert bench.occurrences() == []
    assert bench.plan() == []


def test_first_term_continues_from_last_run_at(bench: SchedulingBench) -> None:
    """Moving from another scheduler neither repeats nor loses a firing; an interval keeps its cadence."""
    job = bench.every(3600, last_run_at=NOW - timedelta(minutes=20))
    bench.plan(first_term=True)
    assert bench.state(job).next_due_at_ms == NOW_MS + 40 * MINUTE_MS


def test_later_terms_ignore_last_run_at_of_new_rows(bench: SchedulingBench) -> None:
    """A row inserted with an old last run does not fire for the past."""
    job = bench.every(3600, last_run_at=NOW - timedelta(days=3))
    bench.plan()
    assert bench.state(job).next_due_at_ms == NOW_MS + 60 * MINUTE_MS


def test_day_under_another_scheduler_is_not_caught_up(bench: SchedulingBench) -> None:
    """Its last_run_at is newer than ours: plan from there, and claim nothing of the day."""
    job = bench.every(3600)
    bench.plan()
    bench.claim(NOW_MS + 60 * MINUTE_MS)
    day_later_ms = NOW_MS + 25 * 60 * MINUTE_MS
    bench.edit(job, last_run_at=datetime.fromtimestamp((day_later_ms - 5 * MINUTE_MS) / 1000, UTC))
    reply = bench.claim(day_later_ms)
    assert (list(reply.claimed), list(reply.left_to_planner)) == ([], [job.pk])
    assert bench.plan(day_later_ms) == [ChangeKind.RUN_BY_OTHER]
    assert bench.state(job).next_due_at_ms == day_later_ms + 55 * MINUTE_MS
    assert bench.plan(day_later_ms) == []


def test_own_last_run_at_is_not_taken_for_another_schedulers(bench: SchedulingBench) -> None:
    """What the confirm writes is what the claim has noted."""
    job = bench.every(60)
    bench.plan()
    due_ms = NOW_MS + MINUTE_MS + 123
    bench.claim(due_ms)
    run = JobRun(job_id=job.pk, runs=1, last_run_at_ms=due_ms, finished=False)
    assert bench.outbox(due_ms).record_runs([run]) == []
    job = PeriodicTask.objects.using(bench.alias).get()
    assert (job.last_run_at, job.total_run_count) == (
        datetime.fromtimestamp(due_ms // 1000, UTC) + timedelta(milliseconds=123),
        1,
    )
    assert bench.plan(due_ms) == []


def test_one_off_is_switched_off_once_it_has_run(bench: SchedulingBench) -> None:
    """And what a killed process left switched on is made up, but not before its claim is confirmed."""
    clocked = bench.insert(ClockedSchedule(clocked_time=NOW + timedelta(minutes=1)))
    job = bench.job(clocked=clocked, one_off=True)
    bench.plan()
    due_ms = NOW_MS + MINUTE_MS
    claimed = bench.claim(due_ms).claimed
    assert bench.plan(due_ms) == []
    bench.confirm(claimed, now_ms=due_ms)
    assert bench.plan(due_ms) == [ChangeKind.FINISHED]
    bench.outbox(due_ms).record_runs([JobRun(job_id=job.pk, runs=1, last_run_at_ms=due_ms, finished=True)])
    assert not PeriodicTask.objects.using(bench.alias).get().enabled
    assert bench.plan(due_ms) == [ChangeKind.DISABLED]
    assert bench.state(job).next_due_at_ms is None
    assert [state for state, _, _ in bench.states()] == ["sent"]


def test_late_run_of_an_old_term_sets_nothing_back(bench: SchedulingBench) -> None:
    """last_run_at only moves forward, total_run_count only grows."""
    job = bench.every(60, last_run_at=NOW, total_run_count=99)
    run = JobRun(job_id=job.pk, runs=1, last_run_at_ms=NOW_MS - MINUTE_MS, finished=False)
    bench.outbox().record_runs([run])
    row = PeriodicTask.objects.using(bench.alias).get()
    assert (row.last_run_at, row.total_run_count) == (NOW, 100)


def test_run_of_a_deleted_job_is_dropped(bench: SchedulingBench) -> None:
    """Nobody holds the row; there is none."""
    assert bench.outbox().record_runs([JobRun(job_id=12345, runs=1, last_run_at_ms=NOW_MS, finished=False)]) == []


BAD_SCHEDULES: dict[str, dict[str, Any]] = {
    "step of nothing": {"minute": "*/"},
    "empty": {"minute": ""},
    "no number": {"hour": "abc"},
    "hour 25": {"hour": "25"},
    "30 February": {"day_of_month": "30", "month_of_year": "2"},
    "no such zone": {"timezone": "Mars/Olympus"},
}


@pytest.mark.parametrize("columns", BAD_SCHEDULES.values(), ids=BAD_SCHEDULES.keys())
def test_bad_crontab_is_flagged_with_its_reason_and_harms_nobody_else(
    bench: SchedulingBench, columns: dict[str, Any]
) -> None:
    """Its own rows are not altered."""
    bad, good = bench.crontab("5"), bench.every(60)
    assignments = ", ".join(f"{column} = %s" for column in columns)
    with connections[bench.alias].cursor() as cursor:
        cursor.execute(f"UPDATE django_celery_beat_crontabschedule SET {assignments}", list(columns.values()))
    bench.plan()
    state = bench.state(bad)
    assert state.next_due_at_ms is None
    assert state.error
    assert state.error_since_ms == NOW_MS
    assert bench.state(good).next_due_at_ms == NOW_MS + MINUTE_MS
    assert bench.plan() == []
    assert PeriodicTask.objects.using(bench.alias).filter(pk=bad.pk, enabled=True, crontab_id=bad.crontab_id).exists()


BAD_JOBS: dict[str, dict[str, Any]] = {
    "no schedule": {},
    "args no JSON": {"args": "[1"},
    "args an object": {"args": '{"a": 1}'},
    "args a bare string": {"args": '"a"'},
    "headers a list": {"headers": "[]"},
    "kwargs a list": {"kwargs": "[]"},
}


@pytest.mark.parametrize("columns", BAD_JOBS.values(), ids=BAD_JOBS.keys())
def test_bad_job_is_flagged_until_it_is_mended(bench: SchedulingBench, columns: dict[str, Any]) -> None:
    """Mending the row is noticed like any edit, and plans from then."""
    schedule = bench.insert(IntervalSchedule(every=60, period="seconds"))
    bad = bench.job(**(columns | ({"interval": schedule} if columns else {})))
    bench.plan()
    assert bench.state(bad).error
    assert bench.plan() == []
    bench.edit(bad, interval=schedule, args="[]", kwargs="{}", headers="{}")
    bench.plan(NOW_MS + 5)
    assert (bench.state(bad).error, bench.state(bad).next_due_at_ms) == ("", NOW_MS + MINUTE_MS + 5)


@pytest.mark.parametrize(("every", "period"), [(0, "seconds"), (1, "microseconds"), (-5, "minutes")])
def test_absurd_interval_is_refused(bench: SchedulingBench, every: int, period: str) -> None:
    """It neither spins nor stops the others."""
    bad = bench.job(interval=bench.insert(IntervalSchedule(every=every, period=period)))
    bench.plan()
    assert bench.state(bad).next_due_at_ms is None
    assert str(every) in bench.state(bad).error


def test_both_kinds_of_expiry_are_honoured(bench: SchedulingBench) -> None:
    """django-celery-beat's sync dies of such a row."""
    job = bench.every(60, expires=NOW + timedelta(seconds=90), expire_seconds=5)
    bench.plan()
    (claimed,) = bench.claim(NOW_MS + MINUTE_MS).claimed
    assert claimed.message is not None
    assert claimed.message.expire_seconds == 5
    assert claimed.message.expires
    assert bench.state(job).next_due_at_ms is None


def test_passes_go_on_where_the_last_part_ended(bench: SchedulingBench) -> None:
    """Many changed jobs are read in parts, by id."""
    jobs = [bench.every(60) for _ in range(5)]
    outbox = bench.outbox()
    first = outbox.find_changes(after_job_id=0, limit=3)
    second = outbox.find_changes(after_job_id=first[-1].job_id, limit=3)
    assert [change.job_id for change in [*first, *second]] == [job.pk for job in jobs]


def test_jobs_are_counted_no_further_than_asked(bench: SchedulingBench) -> None:
    """Whether there are many of them decides how often all are passed over."""
    for _ in range(3):
        bench.every(60)
    assert [bench.outbox().has_more_jobs_than(count) for count in (1, 2, 3, 4)] == [True, True, False, False]


def test_open_transaction_on_one_job_stops_nobody(bench: SchedulingBench) -> None:
    """Its run is made up later; every other job's is recorded at once."""
    if bench.alias == "sqlite":
        return  # one writer: everybody waits until it ends
    held, free = bench.every(60), bench.every(60)
    runs = [JobRun(job_id=job.pk, runs=1, last_run_at_ms=NOW_MS, finished=False) for job in (held, free)]
    bench.plan()
    with bench.locked_rows(PeriodicTask.objects.using(bench.alias).filter(pk=held.pk)):
        call = bench.in_thread(lambda: bench.claim(NOW_MS + MINUTE_MS).claimed)
        claimed = call.result()
        assert {each.job_id for each in claimed} == {held.pk, free.pk}
        bench.in_thread(lambda: bench.confirm(claimed, now_ms=NOW_MS + MINUTE_MS)).result()
        assert bench.in_thread(lambda: bench.outbox().record_runs(runs)).result() == [runs[0]]
    assert bench.outbox().record_runs(runs[:1]) == []
    assert {job.total_run_count for job in PeriodicTask.objects.using(bench.alias)} == {1}
    assert {row.state for row in Occurrence.objects.using(bench.alias)} == {"sent"}


@pytest.mark.parametrize("columns", [{"catch_up": "twice"}, {"overlap": ""}, {"delivery": "maybe"}])
def test_policy_that_says_nothing_known_is_refused_by_the_database(
    bench: SchedulingBench, columns: dict[str, str]
) -> None:
    """By whatever path it comes: a claim relies on these texts."""
    job = bench.every(60)
    with pytest.raises(DatabaseError), transaction.atomic(using=bench.alias):
        JobPolicy.objects.using(bench.alias).bulk_create([JobPolicy(job_id=job.pk, **columns)])


def test_last_run_in_the_year_1_means_never(bench: SchedulingBench) -> None:
    """Some code writes it so; with a zone west of Greenwich it is before the first date there is."""
    schedule = bench.insert(CrontabSchedule(minute="0", hour="*/2", timezone="America/New_York"))
    job = bench.job(crontab=schedule, last_run_at=datetime(1, 1, 1, tzinfo=UTC))
    good = bench.every(60)
    bench.plan(first_term=True)
    assert bench.state(good).next_due_at_ms == NOW_MS + MINUTE_MS
    assert bench.state(job).next_due_at_ms is not None
    assert len(bench.claim(NOW_MS).claimed) == 1
    assert bench.state(job).next_due_at_ms == NOW_MS + 60 * MINUTE_MS
