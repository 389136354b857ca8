"""Clocks that are wrong, or are put right while schedulers run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.ordeal import EVERYTHING, undergo
from tests.acceptance.other_clock import OtherClock
from tests.acceptance.waiting import next_second_ms, now_ms, wait_for_instant

_STEP_S = 8
"""More than what passes for drift."""
_HOUR_S = 3600
_BACK_WITHIN_S = 3.0


@pytest.fixture
def clock() -> Iterator[OtherClock]:
    """Yield a clock that shows the machine's time until it is set, in a folder that servers' users can read."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield OtherClock(folder / "clock")


@pytest.fixture
def fleet_by_clock(stack: str, clock: OtherClock, django_db_blocker: DjangoDbBlocker) -> Iterator[Fleet]:
    """Yield a fleet whose database's clock is that one; SQLite's is the clock of the process that asks."""
    with django_db_blocker.unblock():
        fleet = Fleet(stack, leased_cron=EVERYTHING, on_own_servers=True, database_environment=clock.environment)
        try:
            if stack.startswith("sqlite"):
                fleet.environment = clock.environment
            fleet.migrate()
            yield fleet
        finally:
            fleet.close()


on_each_database = pytest.mark.parametrize(
    "stack", ["postgres-redis", "mariadb-redis", "sqlite-filesystem"], indirect=True
)


@pytest.mark.full
@on_each_database
@pytest.mark.parametrize("step_s", [_STEP_S, -_STEP_S], ids=["forward", "back"])
def test_step_the_database_clock(fleet_by_clock: Fleet, clock: OtherClock, step_s: int, report: Report) -> None:
    """By some seconds, and back again later: each due time comes once, when that clock first shows it."""
    fleet = fleet_by_clock
    ordeal = undergo(fleet, _stepped(clock, step_s), seconds=4, afterwards_s=_STEP_S + 3)
    report(ordeal)
    ordeal.assert_nothing_was_harmed(within_s=_STEP_S + _BACK_WITHIN_S)


@pytest.mark.full
@on_each_database
def test_kill_the_holder_after_the_database_clock_stepped_back(
    fleet_by_clock: Fleet, clock: OtherClock, report: Report
) -> None:
    """By that clock its lease would last for long: it is taken because it does not change."""
    fleet = fleet_by_clock
    fleet.open_tap()
    fleet.start_supervisors(2)
    jobs = fleet.add_jobs(1)
    fleet.wait_for_message(jobs, due_from_ms=jobs.first_due_ms)
    wait_for_instant(next_second_ms() + 500)
    clock.set(-_HOUR_S)
    holder = fleet.wait_for_holder()
    holder.kill()
    killed_at_ms = now_ms()
    successor = fleet.wait_for_holder(other_than=holder)
    gap_ms = now_ms() - killed_at_ms
    report(f"next holder after {gap_ms} ms")
    successor.wait_for_line("lease acquired (unchanged)")
    timing = fleet.timing
    assert gap_ms <= (timing.lease_ttl_s + timing.poll_interval_s + 0.5) * 1000
    fleet.stop_supervisors()


@pytest.mark.full
@pytest.mark.parametrize("stack", ["postgres-redis", "mariadb-rabbitmq"], indirect=True)
@pytest.mark.parametrize("ahead_s", [_HOUR_S, -_HOUR_S], ids=["fast", "slow"])
def test_run_the_holder_with_a_clock_an_hour_off(fleet: Fleet, clock: OtherClock, ahead_s: int, report: Report) -> None:
    """No process's clock decides anything: it is as if it were right."""
    clock.set(ahead_s)
    fleet.leased_cron = EVERYTHING
    fleet.environment = clock.environment
    (wrong,) = fleet.start_supervisors(1)
    assert fleet.wait_for_holder() is wrong
    fleet.environment = {}
    fleet.start_supervisors(1)
    ordeal = undergo(fleet, nullcontext(), seconds=4, supervisors=0)
    report(ordeal)
    ordeal.assert_nothing_was_harmed(within_s=1.0, outages=0)
    assert ordeal.takeovers == 0
    assert ordeal.account.worst_lateness_ms() < 2000


@contextmanager
def _stepped(clock: OtherClock, step_s: int) -> Iterator[None]:
    clock.set(step_s)
    yield
    clock.set(0)
