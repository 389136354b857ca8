"""The worker's side: what is recorded of a run, and which copies of an occurrence run."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from celery import Celery
from django.db import OperationalError, connections
from django.test import override_settings

from django_leased_cron import current_occurrence, worker
from django_leased_cron.core.occurrence import build_task_id, format_instant
from django_leased_cron.models import Occurrence
from tests.contract.tcp_proxy import TcpProxy
from tests.servers import SERVERS

JOB_ID = 7
DUE_AT_MS = 1_774_746_000_123
LONG_AGO_MS = 1_000_000_000_000


def header(row: Occurrence, *, attempt: int = 1, tenant: str = "default") -> dict[str, Any]:
    return {
        "leased_cron": {
            "tenant": tenant,
            "job_id": row.job_id,
            "occurrence_id": row.pk,
            "due_at": format_instant(row.due_at_ms),
            "epoch": 3,
            "attempt": attempt,
        }
    }


def make_row(alias: str, **values: Any) -> Occurrence:
    count = Occurrence.objects.using(alias).count()
    values = {"job_id": JOB_ID, "due_at_ms": DUE_AT_MS + count, "state": "sent", "attempt": 1} | values
    return Occurrence.objects.using(alias).create(**values)


def wait_until(is_so: Callable[[], bool], *, timeout_s: float = 20, what: str = "it") -> None:
    """Wait for another process; the only place of this file that sleeps."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, f"{what} did not happen within {timeout_s} s"
        time.sleep(0.02)


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


@dataclass(kw_only=True)
class Worker:
    """A worker process, and the way to send it messages."""

    app: Celery
    log: Path
    journal: Path
    process: subprocess.Popen[bytes]

    def send(self, task: str, row: Occurrence | None, *, attempt: int = 1) -> None:
        headers = {} if row is None else header(row, attempt=attempt)
        job_id, due_at_ms = (JOB_ID, 0) if row is None else (row.job_id, row.due_at_ms)
        task_id = build_task_id(tenant_key="default", job_id=job_id, due_at_ms=due_at_ms)
        self.app.send_task(task, task_id=task_id, headers=headers)

    def runs(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.journal.read_text().splitlines()] if self.journal.exists() else []


@contextmanager
def started_worker(pool: str, folder: Path, redis_url: str, postgres_port: int) -> Iterator[Worker]:
    """Run a worker whose ``default`` database is PostgreSQL, at that port."""
    prefix = f"leased-cron-test-{uuid4().hex}:"
    log, journal = folder / "worker.log", folder / "journal"
    server = SERVERS["postgres"]
    environment = {
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "LEASED_CRON_TEST_DATABASE": "postgresql",
        server.variable: server.url.replace(f":{server.address[1]}", f":{postgres_port}"),
        "GUARDED_BROKER_URL": redis_url,
        "GUARDED_PREFIX": prefix,
        "GUARDED_JOURNAL": str(journal),
    }
    command = [sys.executable, "-m", "celery", "-A", "tests.integration.guarded_tasks", "worker", "-l", "INFO"]
    options = ["-P", pool, "-c", "2", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    app = Celery("sender", broker=redis_url, set_as_current=False)
    app.conf.broker_transport_options = {"global_keyprefix": prefix}
    with log.open("wb") as output:
        process = subprocess.Popen([*command, *options], env=os.environ | environment, stdout=output, stderr=output)
        try:
            wait_until(lambda: b" ready." in log.read_bytes(), what="the worker's start")
            yield Worker(app=app, log=log, journal=journal, process=process)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=20) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()
            with app.connection_for_write() as connection:
                client = connection.default_channel.client  # type: ignore[attr-defined]
                keys = [key.removeprefix(prefix.encode()) for key in client.scan_iter(f"{prefix}*")]
                if keys:
                    client.delete(*(key.decode() for key in keys))


EXPECTED = {
    # task: how often it runs, state, the reason's beginning
    "succeed": (1, "succeeded", ""),
    "shared": (1, "succeeded", ""),
    "late": (1, "succeeded", ""),
    "calling": (1, "succeeded", ""),
    "nesting": (1, "succeeded", ""),
    "fail": (1, "failed", "ValueError: it did \\x00 not work"),
    "retry": (3, "succeeded", ""),
    "autoretry": (2, "failed", "ValueError: each time"),
    "ignore": (1, "succeeded", "the task asked"),
    "reject": (1, "failed", "the task rejected"),
}


@pytest.mark.parametrize("database_alias", ["postgres"], indirect=True)
@pytest.mark.parametrize("pool", ["solo", "threads", "prefork"])
def test_every_kind_of_task_in_every_kind_of_pool(
    pool: str, database_alias: str, redis_url: str, tmp_path: Path
) -> None:
    """Each occurrence is sent as two attempts: one of them runs, with its retries, and is recorded."""
    with started_worker(pool, tmp_path, redis_url, SERVERS["postgres"].address[1]) as running:
        rows = {task: make_row(database_alias) for task in EXPECTED}
        for attempt in (1, 2):
            for task, row in rows.items():
                running.send(task, row, attempt=attempt)
        running.send("succeed", None)
        states = Occurrence.objects.using(database_alias).values_list("state", flat=True)
        wait_until(lambda: set(states.all()) <= {"succeeded", "failed"}, what=f"the end of all runs in {pool}")
        wait_until(lambda: running.log.read_text().count("Dropped a second copy") == len(rows), what="dropping")
        wait_until(lambda: [run["attempt"] for run in running.runs() if run["due_at"] is None] == [None])

    for task, (count, state, reason) in EXPECTED.items():
        row = rows[task]
        row.refresh_from_db()
        assert (task, row.state) == (task, state)
        assert row.reason.startswith(reason)
        assert bool(row.reason) == bool(reason)
        assert row.started_at_ms is not None
        assert row.finished_at_ms is not None
        assert row.started_at_ms <= row.finished_at_ms
        runs = [run for run in running.runs() if run["task"] == task and run["attempt"] is not None]
        if task == "succeed":  # once more as a function inside "nesting", for whose occurrence it ran there
            assert len(runs) == 2
            continue
        assert [run["attempt"] for run in runs] == [row.run_attempt] * count
        assert {run["due_at"] for run in runs} == {format_instant(row.due_at_ms).replace("Z", "000+00:00")}


@pytest.mark.parametrize("database_alias", ["postgres"], indirect=True)
def test_while_the_database_is_away_a_message_neither_runs_nor_is_dropped(
    database_alias: str, redis_url: str, tmp_path: Path
) -> None:
    """It waits, and runs once the database is back; what nobody scheduled runs meanwhile."""
    with (
        TcpProxy(SERVERS["postgres"].address) as proxy,
        started_worker("threads", tmp_path, redis_url, proxy.port) as running,
    ):
        row = make_row(database_alias)
        proxy.refuse()
        running.send("succeed", row)
        wait_until(lambda: "Waiting for the database" in running.log.read_text(), what="waiting")
        running.send("shared", None)
        wait_until(lambda: [run["task"] for run in running.runs()] == ["shared"])

        proxy.restore()
        wait_until(lambda: [run["task"] for run in running.runs()] == ["shared", "succeed"])
        states = Occurrence.objects.using(database_alias).values_list("state", flat=True)
        wait_until(lambda: list(states.all()) == ["succeeded"])
