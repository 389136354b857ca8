"""The worker's side: what is recorded of a run, and which copies of an occurrence run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from celery import Celery
from django.db import OperationalError, connections
from django.test import override_settings

from django_leased_cron import current_occurrence, worker
from django_leased_cron.core.occurrence import format_instant
from tests.integration.guarded_worker import JOB_ID, LONG_AGO_MS, header, make_row


class Project:
    """A Celery app in this process, whose tasks are guarded as in a worker and run at once."""

    def __init__(self) -> None:
        self.app = Celery("guard-in-process", set_as_current=False)
        self.runs: list[int | None] = []
        self.error: Exception | None = None

        @self.app.task(name="task", shared=False)
        def task() -> None:
            occurrence = current_occurrence()
            self.runs.append(None if occurrence is None else occurrence.attempt)
            if self.error is not None:
                raise self.error

        self.app.finalize()
        worker.guard_tasks(self.app)

    def run(self, headers: dict[str, Any] | None) -> str:
        """Return the state that Celery gives the run."""
        return str(self.app.tasks["task"].apply(headers=headers, task_id=str(uuid4())).state)


@pytest.fixture
def project(request: pytest.FixtureRequest) -> Iterator[Project]:
    options: dict[str, Any] = {}
    if "database_alias" in request.fixturenames:
        options = {"TENANTS": {"OPTIONS": {"alias": request.getfixturevalue("database_alias")}}}
    with override_settings(LEASED_CRON=options):
        yield Project()


def test_a_run_is_recorded_from_start_to_end(database_alias: str, project: Project) -> None:
    """State, attempt and times, by the database's own clock."""
    row = make_row(database_alias)
    assert project.run(header(row)) == "SUCCESS"
    assert project.runs == [1]
    row.refresh_from_db()
    assert (row.state, row.run_attempt, row.reason) == ("succeeded", 1, "")
    assert row.started_at_ms is not None
    assert row.finished_at_ms is not None
    assert LONG_AGO_MS < row.started_at_ms <= row.finished_at_ms


@pytest.mark.parametrize("state", ["claimed", "uncertain", "running"])
def test_a_start_counts_as_confirmation(database_alias: str, project: Project, state: str) -> None:
    """Whatever was known of the message, it has arrived."""
    row = make_row(database_alias, state=state)
    project.run(header(row))
    row.refresh_from_db()
    assert (row.state, row.run_attempt) == ("succeeded", 1)


def test_only_the_first_attempt_to_start_runs(database_alias: str, project: Project) -> None:
    """Whichever it is; the other is dropped, and said so, however often it comes."""
    row = make_row(database_alias, attempt=2)
    assert [project.run(header(row, attempt=attempt)) for attempt in (2, 1, 1)] == ["SUCCESS", "IGNORED", "IGNORED"]
    assert project.runs == [2]
    row.refresh_from_db()
    assert (row.state, row.run_attempt) == ("succeeded", 2)


def test_copies_that_start_at_once_run_once(database_alias: str, project: Project) -> None:
    """Eight attempts in eight threads: one of them."""
    row = make_row(database_alias)
    barrier = threading.Barrier(8)

    def run(attempt: int) -> None:
        barrier.wait()
        project.run(header(row, attempt=attempt))
        connections[database_alias].close()

    threads = [threading.Thread(target=run, args=(attempt,)) for attempt in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    row.refresh_from_db()
    assert project.runs == [row.run_attempt]


def test_a_redelivery_runs_and_history_stays(database_alias: str, project: Project) -> None:
    """The message of the attempt that owns the occurrence may come again, even after its end."""
    row = make_row(database_alias)
    project.run(header(row))
    project.error = ValueError("the second time")
    project.run(header(row))
    assert project.runs == [1, 1]
    row.refresh_from_db()
    assert (row.state, row.reason) == ("succeeded", "")


def test_an_error_is_recorded_without_breaking_on_its_text(database_alias: str, project: Project) -> None:
    """Type and message, of bounded length, as text that the database takes; and Celery sees it as before."""
    row = make_row(database_alias)
    project.error = ValueError("zero \x00, half a pair \ud800" + "x" * 10_000)
    assert project.run(header(row)) == "FAILURE"
    row.refresh_from_db()
    assert row.state == "failed"
    assert row.finished_at_ms is not None
    assert row.reason.startswith("ValueError: zero \\x00, half a pair \\ud800xxx")
    assert len(row.reason) < 600


def test_a_row_whose_history_has_ended_keeps_it(database_alias: str, project: Project) -> None:
    """A message that arrives all the same runs, and once."""
    row = make_row(database_alias, state="failed", reason="refused")
    assert [project.run(header(row, attempt=attempt)) for attempt in (1, 2)] == ["SUCCESS", "IGNORED"]
    row.refresh_from_db()
    assert (row.state, row.reason, row.started_at_ms, row.finished_at_ms) == ("failed", "refused", None, None)


@pytest.mark.parametrize("change", [{"job_id": JOB_ID + 1}, {"due_at": format_instant(LONG_AGO_MS)}, {"tenant": "?"}])
def test_an_occurrence_that_is_not_there_runs_untracked(
    database_alias: str, project: Project, change: dict[str, Any]
) -> None:
    """Purged, of a database that was restored, or of a tenant that is no longer listed."""
    row = make_row(database_alias)
    headers = header(row)
    headers["leased_cron"] |= change
    assert [project.run(headers), project.run(headers)] == ["SUCCESS", "SUCCESS"]
    row.refresh_from_db()
    assert (row.state, row.run_attempt) == ("sent", None)


@pytest.mark.parametrize("headers", [None, {}, {"leased_cron": "?"}, {"leased_cron": {"tenant": "default"}}])
def test_messages_of_others_run_as_before(project: Project, headers: dict[str, Any] | None) -> None:
    """Without the header, or with one that is not ours, no database is asked (this test may not use one)."""
    assert project.run(headers) == "SUCCESS"
    assert project.runs == [None]


def test_guarding_twice_is_guarding_once(project: Project) -> None:
    """Several signals lead to it, and a task that is known already is left alone."""
    run = project.app.tasks["task"].run
    worker.guard_tasks(project.app)
    assert project.app.tasks["task"].run is run


def test_tracking_can_be_turned_off() -> None:
    """Then no task is touched."""
    app = Celery("untracked", set_as_current=False)

    @app.task(name="task", shared=False)
    def task() -> None: ...

    run = app.tasks["task"].run
    with override_settings(LEASED_CRON={"TRACK_RUNS": False}):
        worker.guard_worker(sender=type("Worker", (), {"app": app}))
    assert app.tasks["task"].run is run


def test_an_end_that_cannot_be_recorded_lets_the_result_stand(
    database_alias: str, project: Project, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried a few times and logged; the run has ended anyway."""
    row = make_row(database_alias)
    tries: list[float] = []

    def fail(*_: Any) -> None:
        raise OperationalError("gone")

    monkeypatch.setattr(worker.RunRecord, "_finish", fail)
    monkeypatch.setattr("django_leased_cron.worker.time.sleep", tries.append)
    with caplog.at_level(logging.ERROR):
        assert project.run(header(row)) == "SUCCESS"
    row.refresh_from_db()
    assert row.state == "running"
    assert 3 <= len(tries) <= 10
    assert tries == sorted(tries)
    assert [record.__dict__["event"] for record in caplog.records] == [
        "run.waiting_for_database",
        "run.end_not_recorded",
    ]
