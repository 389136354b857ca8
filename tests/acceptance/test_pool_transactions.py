"""pgbouncer in transaction mode between everybody and PostgreSQL: each transaction may run on another connection."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack

import pytest

from tests.acceptance.conftest import Report
from tests.acceptance.databases import PooledDatabase
from tests.acceptance.fleet import Fleet
from tests.acceptance.pgbouncer import PgBouncer
from tests.acceptance.processes import REPOSITORY
from tests.acceptance.waiting import next_second_ms, now_ms, wait_for_instant
from tests.servers import SERVERS, require_server

_SLACK_MS = 500
_SUITES = (
    "tests/contract/test_lease_store.py",
    "tests/contract/test_lease_store_races.py",
    "tests/integration/test_adoptions.py",
    "tests/integration/test_claims.py",
    "tests/integration/test_edit_triggers.py",
    "tests/integration/test_lost_replies.py",
    "tests/integration/test_plans.py",
)
on_pgbouncer = pytest.mark.parametrize("stack", ["pgbouncer-redis"], indirect=True)


@on_pgbouncer
def test_kill_and_ask_holders_behind_a_pool(fleet: Fleet, report: Report) -> None:
    """Rescue is as quick as without it, a hand-over waits for a poll, and nothing is lost or run twice."""
    fleet.start(supervisors=2)
    jobs = fleet.add_jobs(3)
    fleet.wait_for_message(jobs, due_from_ms=jobs.first_due_ms)

    holder = fleet.wait_for_holder()
    wait_for_instant(next_second_ms() + 500)
    holder.kill()
    killed_at_ms = now_ms()
    in_hand = fleet.read_claimed()
    fleet.wait_for_holder(other_than=holder)
    fleet.wait_for_message(jobs, due_from_ms=killed_at_ms)
    fleet.start_supervisors(1)
    holder = fleet.wait_for_holder()
    requested_at_ms = fleet.request_hand_over()
    fleet.wait_for_holder(other_than=holder)
    lease = fleet.read_lease()
    assert lease is not None
    gap_ms = lease.acquired_at_ms - requested_at_ms
    fleet.wait_for_message(jobs, due_from_ms=requested_at_ms)
    account = fleet.finish(jobs, until_ms=next_second_ms())

    assert fleet.timing.rescue_after_s is not None
    late_ms = account.worst_lateness_ms(without=in_hand)
    report(f"{account}, {late_ms} ms late at worst, next holder after {gap_ms} ms")
    assert late_ms <= round((fleet.timing.rescue_after_s + fleet.timing.poll_interval_s) * 1000) + _SLACK_MS
    assert gap_ms <= fleet.polite_gap_ms
    assert not account.lost
    assert not account.strangers
    assert account.sent_again <= in_hand
    assert not account.not_run
    assert not account.run_twice
    assert isinstance(fleet.database, PooledDatabase)
    assert "when not linked" not in fleet.database.pool.read_log()  # LISTEN stayed behind on a connection of the pool


@pytest.mark.full
@pytest.mark.timeout(900)
def test_what_holds_on_postgres_holds_behind_a_pool() -> None:
    """Leases, claims, confirms, adoptions, plans and edits: the same tests."""
    server = require_server("postgres")
    environment = {name: value for name, value in os.environ.items() if name != "LEASED_CRON_TEST_RUN"}
    with ExitStack() as cleanup:
        pool = PgBouncer(server, cleanup, size=10)
        environment[SERVERS["postgres"].variable] = pool.through(server.url)
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *_SUITES, "-k", "postgres"],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert run.returncode == 0, run.stdout
