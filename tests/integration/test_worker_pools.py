"""Real workers: every kind of pool and of task, and a database that goes away."""

from __future__ import annotations

from pathlib import Path

import pytest

from django_leased_cron.core.occurrence import format_instant
from django_leased_cron.models import Occurrence
from tests.acceptance.waiting import wait_until
from tests.contract.tcp_proxy import TcpProxy
from tests.integration.guarded_worker import make_row, started_worker
from tests.servers import SERVERS

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
        wait_until(lambda: set(states.all()) <= {"succeeded", "failed"}, "all runs to end", within_s=20)
        wait_until(
            lambda: running.log.read_text().count("Dropped a second copy") == len(rows),
            "the copies to be dropped",
            within_s=20,
        )
        wait_until(lambda: [run["task"] for run in running.runs() if run["due_at"] is None], "the rest", within_s=20)

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
        wait_until(lambda: "Waiting for the database" in running.log.read_text(), "the wait", within_s=20)
        running.send("shared", None)
        wait_until(lambda: [run["task"] for run in running.runs()] == ["shared"], "the other's run", within_s=20)

        proxy.restore()
        wait_until(lambda: [run["task"] for run in running.runs()] == ["shared", "succeed"], "the run", within_s=20)
        states = Occurrence.objects.using(database_alias).values_list("state", flat=True)
        wait_until(lambda: list(states.all()) == ["succeeded"], "the record", within_s=20)
