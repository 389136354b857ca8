"""Rows that another scheduler has left, and what is left to it, on real databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django_celery_beat.models import ClockedSchedule

from django_leased_cron.core.outbox import ChangeKind, JobRun
from tests.integration.scheduling_bench import NOW_MS, SchedulingBench

MINUTE_MS = 60_000
NOW = datetime.fromtimestamp(NOW_MS / 1000, UTC)


def test_job_that_comes_due_in_the_switch_for_the_first_time_is_claimed(bench: SchedulingBench) -> None:
    """The tenant's latest run says until when the other scheduler went on."""
    bench.every(3600, last_run_at=NOW - timedelta(seconds=20))
    before, within = (
        bench.job(clocked=bench.insert(ClockedSchedule(clocked_time=NOW - timedelta(seconds=seconds))), one_off=True)
        for seconds in (30, 10)
    )
    bench.plan(first_term=True)
    assert [claimed.job_id for claimed in bench.claim(NOW_MS).claimed] == [within.pk]
    assert bench.state(before).next_due_at_ms is None


def test_nothing_has_come_due_where_nobody_ran_anything(bench: SchedulingBench) -> None:
    """Rows that were there before the first scheduler was."""
    job = bench.crontab("59")
    bench.plan(first_term=True)
    assert bench.state(job).next_due_at_ms == NOW_MS + 59 * MINUTE_MS


def test_one_off_that_was_run_there_and_not_yet_switched_off_is_at_rest(bench: SchedulingBench) -> None:
    """At the first pass, and for a row that appears while the other scheduler schedules for a day."""
    ran = {"one_off": True, "last_run_at": NOW - timedelta(minutes=1), "total_run_count": 1}
    first = bench.crontab("30", **ran)
    bench.plan(first_term=True)
    second = bench.crontab("40", **ran)
    bench.plan()
    assert [bench.state(job).next_due_at_ms for job in (first, second)] == [None, None]


def test_one_off_is_left_as_the_other_scheduler_leaves_it(bench: SchedulingBench) -> None:
    """Switched off and with a count of 0, so that it runs once more where people switch it on: there, and here."""
    job = bench.every(60, one_off=True)
    bench.plan()
    due_ms = NOW_MS + MINUTE_MS
    bench.confirm(bench.claim(due_ms).claimed, now_ms=due_ms)
    bench.outbox(due_ms).record_runs([JobRun(job_id=job.pk, runs=1, last_run_at_ms=due_ms, finished=True)])
    [row] = bench.jobs()
    assert (row.enabled, row.total_run_count) == (False, 0)
    assert row.last_run_at == NOW + timedelta(minutes=1)
    bench.plan(due_ms)

    bench.edit(job, enabled=True)
    assert bench.plan(due_ms + 1000) == [ChangeKind.NEW]
    assert bench.state(job).next_due_at_ms == due_ms + 1000 + MINUTE_MS
