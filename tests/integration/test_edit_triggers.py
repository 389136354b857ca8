"""Which edits are noted, by whatever path they come, on real databases."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connections, transaction
from django_celery_beat.models import CrontabSchedule, PeriodicTask

from django_leased_cron import edit_triggers
from django_leased_cron.core.outbox import ChangeKind, JobRun, NotedChanges
from tests.integration.scheduling_bench import NOW_MS, SchedulingBench


@pytest.fixture
def job(bench: SchedulingBench) -> PeriodicTask:
    """Return a planned job, with no notes left."""
    job = bench.crontab("10")
    bench.plan()
    forget(bench)
    return job


def look(bench: SchedulingBench) -> NotedChanges:
    return bench.outbox().find_noted_changes(limit=5000)


def forget(bench: SchedulingBench) -> None:
    note_ids = look(bench).note_ids
    if note_ids:
        bench.outbox().forget_notes(note_ids)


def execute(bench: SchedulingBench, sql: str) -> None:
    with connections[bench.alias].cursor() as cursor:
        cursor.execute(sql)


def test_triggers_are_installed_by_migrate(bench: SchedulingBench, job: PeriodicTask) -> None:
    """And found where they are."""
    assert bench.outbox().has_edit_triggers()


EDITS: dict[str, tuple[Callable[[SchedulingBench, PeriodicTask], object], ChangeKind]] = {
    "queryset update": (lambda bench, job: bench.edit(job, enabled=False), ChangeKind.DISABLED),
    "raw update": (
        lambda bench, job: execute(bench, "UPDATE django_celery_beat_crontabschedule SET minute = '20'"),
        ChangeKind.EDITED,
    ),
    "raw delete": (
        lambda bench, job: execute(bench, "DELETE FROM django_celery_beat_periodictask"),
        ChangeKind.DELETED,
    ),
    "another schedule": (
        lambda bench, job: bench.edit(job, crontab=bench.insert(CrontabSchedule(minute="5", timezone="UTC"))),
        ChangeKind.EDITED,
    ),
    "bulk_create": (lambda bench, job: bench.every(60), ChangeKind.NEW),
    "bulk_update": (
        lambda bench, job: PeriodicTask.objects.using(bench.alias).bulk_update(
            [PeriodicTask(pk=job.pk, start_time=datetime(2027, 2, 1, tzinfo=UTC))], ["start_time"]
        ),
        ChangeKind.EDITED,
    ),
}


@pytest.mark.parametrize("path", EDITS)
def test_edit_is_noted_whatever_its_path(bench: SchedulingBench, job: PeriodicTask, path: str) -> None:
    """One look finds it, and what is forgotten after it was planned does not come back."""
    make, kind = EDITS[path]
    make(bench, job)
    noted = look(bench)
    assert [change.kind for change in noted.changes] == [kind]
    bench.plan()
    bench.outbox().forget_notes(noted.note_ids)
    assert look(bench) == NotedChanges(note_ids=[], changes=(), everything=False)


def test_edit_is_noted_when_it_commits_and_not_if_it_is_rolled_back(bench: SchedulingBench, job: PeriodicTask) -> None:
    """However long the transaction stays open; nothing is skipped that commits late."""
    if bench.alias == "sqlite":
        return  # one writer: nobody reads past an open transaction there in this shape
    with transaction.atomic(using=bench.alias):
        bench.edit(job, enabled=False)
        assert bench.in_thread(lambda: look(bench)).result().note_ids == []
        bench.in_thread(lambda: bench.every(60)).result()
        noted = bench.in_thread(lambda: look(bench)).result()
        bench.outbox().forget_notes(noted.note_ids)
        transaction.set_rollback(False, using=bench.alias)
    assert [change.kind for change in look(bench).changes] == [ChangeKind.DISABLED]
    forget(bench)
    with transaction.atomic(using=bench.alias):
        bench.edit(job, enabled=True)
        transaction.set_rollback(True, using=bench.alias)
    assert look(bench).note_ids == []


def test_what_the_scheduler_writes_is_no_edit(bench: SchedulingBench, job: PeriodicTask) -> None:
    """A dispatch notes nothing: neither a run nor a description that somebody corrects."""
    bench.outbox().record_runs([JobRun(job_id=job.pk, runs=1, last_run_at_ms=NOW_MS, finished=False)])
    bench.edit(job, description="corrected", queue="other", priority=1)
    bench.edit(job, enabled=True)
    assert look(bench).note_ids == []


@pytest.mark.parametrize("columns", [{"args": "[2]"}, {"kwargs": '{"a": 1}'}, {"headers": '{"a": "b"}'}])
def test_mended_message_is_noted(bench: SchedulingBench, job: PeriodicTask, columns: dict[str, Any]) -> None:
    """A job flagged for its arguments is looked at again."""
    bench.edit(job, **columns)
    assert len(look(bench).note_ids) == 1


def test_schedule_that_many_jobs_share_is_a_reason_to_pass_over_all(bench: SchedulingBench, job: PeriodicTask) -> None:
    """Instead of a list of its jobs that nobody needs."""
    jobs = [PeriodicTask(name=f"many {n}", task="t", crontab=job.crontab) for n in range(600)]
    PeriodicTask.objects.using(bench.alias).bulk_create(jobs)
    forget(bench)
    execute(bench, "UPDATE django_celery_beat_crontabschedule SET hour = '5'")
    assert look(bench).everything


def test_schedule_deleted_from_under_its_jobs_is_noted(bench: SchedulingBench, job: PeriodicTask) -> None:
    """By SQL, where a session has switched foreign keys off; PostgreSQL has no such switch."""
    if bench.alias == "postgres":
        return
    with connections[bench.alias].constraint_checks_disabled():
        execute(bench, "DELETE FROM django_celery_beat_crontabschedule")
    assert [change.kind for change in look(bench).changes] == [ChangeKind.EDITED]
    bench.plan()
    assert "no longer exists" in bench.state(job).error


def test_truncated_table_is_a_reason_to_pass_over_all(bench: SchedulingBench, job: PeriodicTask) -> None:
    """PostgreSQL's triggers see it; MySQL's do not, and are relied on again when there is a job."""
    if bench.alias == "sqlite":
        return  # no such statement
    execute(bench, "TRUNCATE TABLE django_celery_beat_periodictask")
    assert look(bench).everything or not bench.outbox().has_edit_triggers()
    forget(bench)
    assert bench.plan() == [ChangeKind.DELETED]
    assert bench.plan() == []
    bench.crontab("10")
    assert bench.outbox().has_edit_triggers()
    assert [change.kind for change in look(bench).changes] == [ChangeKind.NEW]


def test_triggers_that_are_gone_are_missed(bench: SchedulingBench, job: PeriodicTask) -> None:
    """Then the planner passes over all jobs; installing them again is harmless, and a reason for one more pass."""
    connection = connections[bench.alias]
    edit_triggers.uninstall(connection)
    try:
        assert not bench.outbox().has_edit_triggers()
        bench.edit(job, enabled=False)
        assert look(bench).note_ids == []
    finally:
        edit_triggers.install(connection)
        edit_triggers.install(connection)
    assert bench.outbox().has_edit_triggers()
    assert look(bench).everything
    assert bench.plan() == [ChangeKind.DISABLED]
