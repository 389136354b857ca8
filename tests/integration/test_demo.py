"""The demo's verdict: what it counts, it counts from the schedules, the table and the worker's file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from django_leased_cron.models import Occurrence
from example_project.demo.jobs import Due, Job
from example_project.demo.summary import count

JOB = Job(id=7, name="alpha", first_due_at_ms=1_800_000_000_000, every_ms=1000)
START_MS, END_MS = 1_800_000_002_000, 1_800_000_004_500


@pytest.fixture
def due(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Sequence[Due]:
    """Return what is due, all of it dispatched 5 ms late and run once."""
    due = JOB.find_due(START_MS, END_MS)
    runs = tmp_path / "runs"
    monkeypatch.setenv("EXAMPLE_RECORD_FILE", str(runs))
    runs.write_text("".join(f"{one.task_id} 1 x y z\n" for one in due))
    for one in due:
        _insert(one.due_at_ms, task_id=one.task_id, sent_at_ms=one.due_at_ms + 5)
    return due


def _insert(due_at_ms: int, **values: object) -> None:
    Occurrence.objects.create(job_id=JOB.id, due_at_ms=due_at_ms, **({"state": "sent", "attempt": 1} | values))


def test_due_seconds_lie_on_the_cadence_and_within_the_span() -> None:
    """Both ends of the span belong to it, and a span before the first due time begins there."""
    assert [one.due_at_ms - START_MS for one in JOB.find_due(START_MS, END_MS)] == [0, 1000, 2000]
    assert [one.due_at_ms for one in JOB.find_due(0, JOB.first_due_at_ms)] == [JOB.first_due_at_ms]


@pytest.mark.django_db
def test_all_run_once_is_clean(due: Sequence[Due]) -> None:
    """Nothing was lost, and the worst lateness is that of the table."""
    summary = count(due, start_ms=START_MS, end_ms=END_MS, takeovers=[])
    assert summary.is_clean
    assert (summary.total.due, summary.total.dispatched, summary.total.worst_lateness_ms) == (3, 3, 5)


@pytest.mark.django_db
def test_occurrence_that_did_not_run_is_lost(due: Sequence[Due]) -> None:
    """A message that was sent and never run is lost, whatever the table says."""
    one = Due(job="beta", due_at_ms=START_MS, task_id="never-run")
    _insert(START_MS + 1, task_id=one.task_id, sent_at_ms=START_MS)
    summary = count([*due, one], start_ms=START_MS, end_ms=END_MS, takeovers=[])
    assert (summary.total.dispatched, summary.total.lost, summary.is_clean) == (4, 1, False)


@pytest.mark.django_db
def test_occurrence_that_ran_twice_is_seen(due: Sequence[Due], tmp_path: Path) -> None:
    """Two lines of one task id are two runs; that its message was sent again is not yet wrong."""
    Occurrence.objects.filter(task_id=due[0].task_id).update(attempt=2)
    assert count(due, start_ms=START_MS, end_ms=END_MS, takeovers=[]).total.sent_again == 1
    with (tmp_path / "runs").open("a") as file:
        file.write(f"{due[0].task_id} 2 x y z\n")
    summary = count(due, start_ms=START_MS, end_ms=END_MS, takeovers=[])
    assert (summary.total.run_twice, summary.is_clean) == (1, False)


@pytest.mark.django_db
def test_occurrence_that_no_schedule_asks_for_is_seen(due: Sequence[Due]) -> None:
    """A row between two due seconds is one too many."""
    _insert(START_MS + 500, task_id="stray")
    summary = count(due, start_ms=START_MS, end_ms=END_MS, takeovers=[])
    assert (summary.not_due, summary.is_clean) == (1, False)
