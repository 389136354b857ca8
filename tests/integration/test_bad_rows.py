"""Whatever is in one job's row, it harms only itself (I8): from the plan to the confirm, on real databases."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connections

from django_leased_cron.core.database_clock import DatabaseClockEstimate
from django_leased_cron.core.outbox import Outcome, Settlement
from django_leased_cron.models import JobState
from django_leased_cron.supervision.batch import Batch
from django_leased_cron.supervision.hand import Hand
from tests.integration.scheduling_bench import NOW_MS, SchedulingBench

DUE_MS = NOW_MS + 60_000


def execute(bench: SchedulingBench, sql: str, *parameters: Any) -> None:
    with connections[bench.alias].cursor() as cursor:
        cursor.execute(sql, parameters)


@pytest.mark.parametrize("reason", ["half a character: \ud800", "a NUL: \x00", "\U0001f600", "x" * 10_000])
def test_reason_of_any_text_is_recorded(bench: SchedulingBench, reason: str) -> None:
    """An error's text comes from anywhere; a confirm that the database refuses would be tried for ever."""
    bench.every(60)
    bench.plan()
    (claimed,) = bench.claim(DUE_MS).claimed
    settlement = Settlement(claim=claimed.claim, outcome=Outcome.FAILED, at_ms=DUE_MS, reason=reason)
    bench.outbox(DUE_MS).confirm([settlement], term=bench.term(), predecessors_adoptable_in_ms=None)
    (row,) = bench.occurrences()
    assert row.state == "failed"
    assert row.reason[:5] == reason[:5].replace("\x00", "\\x00")


SQLITE_VALUES: dict[str, str] = {
    "seconds that are a word": "expire_seconds = 'abc'",
    "arguments that are no text": "args = CAST(X'FF' AS TEXT)",
    "arguments that are bytes": "args = X'7B7D'",
    "headers that are a number": "headers = 7",
    "a name that is no text": "name = CAST(X'FF' AS TEXT)",
    "a priority that is a word": "priority = 'high'",
    "an expiry that is a number": "expires = 5",
}


@pytest.mark.parametrize("assignment", SQLITE_VALUES.values(), ids=SQLITE_VALUES.keys())
def test_value_of_a_wrong_type_harms_only_its_job(bench: SchedulingBench, assignment: str) -> None:
    """SQLite stores any type in any column."""
    if bench.alias != "sqlite":
        return
    bad, good = bench.every(60), bench.every(60)
    bench.plan()
    execute(bench, f"UPDATE django_celery_beat_periodictask SET {assignment} WHERE id = %s", bad.pk)
    bench.plan(NOW_MS + 1)
    reply = bench.claim(DUE_MS)
    estimate = DatabaseClockEstimate()
    batch = Batch(reply, hand=Hand(), estimate=estimate, rules=bench.rules)
    publications = batch.build_publications()
    assert good.pk in {publication.headers["leased_cron"]["job_id"] for publication in publications}


@pytest.mark.parametrize("column", ["args", "kwargs", "headers"])
def test_new_job_with_text_that_is_not_utf_8_is_flagged_alone(bench: SchedulingBench, column: str) -> None:
    """SQLite hands no such text to a function in Python, and fails the statement over all rows."""
    if bench.alias != "sqlite":
        return
    bad, good = bench.every(60), bench.every(60)
    execute(bench, f"UPDATE django_celery_beat_periodictask SET {column} = CAST(X'FFFE' AS TEXT) WHERE id = %s", bad.pk)
    bench.plan()
    bench.plan(NOW_MS + 1, with_flagged=True)
    assert column in bench.state(bad).error
    assert bench.state(good).next_due_at_ms == DUE_MS


def test_job_flagged_for_its_message_stays_flagged_until_that_is_edited(bench: SchedulingBench) -> None:
    """The claim and the planner read one digest: of two that differed, the job would be planned and fail for ever."""
    job = bench.every(60, args='["\u00fc"]', kwargs='{"a": 1}')
    bench.plan()
    (claimed,) = bench.claim(DUE_MS).claimed
    assert claimed.message is not None
    JobState.objects.using(bench.alias).filter(job_id=job.pk).update(
        error="the broker refuses it", message_digest=claimed.message.digest, next_due_at_ms=None, fire_at_ms=None
    )
    bench.plan(DUE_MS)
    assert bench.state(job).error == "the broker refuses it"
    bench.edit(job, kwargs='{"a": 2}')
    bench.plan(DUE_MS)
    assert bench.state(job).error == ""


@pytest.mark.parametrize("header", ["id", "task"])
def test_headers_that_would_replace_celerys_own_are_refused(bench: SchedulingBench, header: str) -> None:
    """Many occurrences would go out under one id."""
    job = bench.every(60, headers=f'{{"{header}": "mine"}}')
    bench.plan()
    assert header in bench.state(job).error
