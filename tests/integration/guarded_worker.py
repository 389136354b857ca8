"""Occurrences to run, and a worker process that runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from celery import Celery

from django_leased_cron.core.occurrence import build_task_id, format_instant
from django_leased_cron.models import Occurrence
from tests.acceptance.waiting import wait_until
from tests.servers import SERVERS

JOB_ID = 7
DUE_AT_MS = 1_774_746_000_123
LONG_AGO_MS = 1_000_000_000_000


def header(row: Occurrence, *, attempt: int = 1) -> dict[str, Any]:
    return {
        "leased_cron": {
            "tenant": "default",
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
            wait_until(lambda: b" ready." in log.read_bytes(), "the worker to start", within_s=20)
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
