"""People edit jobs while a scheduler runs, by every way there is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TypeVar

import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import connections, transaction
from django_celery_beat.models import CrontabSchedule, PeriodicTask
from pytest_django import DjangoDbBlocker

from tests.acceptance.edits import EDITS, TASK, Edit, bulk_create, update
from tests.acceptance.fleet import Fleet
from tests.acceptance.forms import SCALED
from tests.acceptance.plans import Plans, have_changed, read_plans
from tests.acceptance.stacks import STACKS
from tests.acceptance.waiting import wait_until

_SHARING = 10
_BESIDE_POLL_S = 1.0
_AT_ALL_S = 20.0
_numbers = count(1)

Found = TypeVar("Found")


@pytest.fixture(scope="module", params=STACKS)
def running_fleet(request: pytest.FixtureRequest, django_db_blocker: DjangoDbBlocker) -> Iterator[Fleet]:
    """Yield a fleet with one scheduler for all edits, its database being ``default`` for this process."""
    default = connections["default"]
    with django_db_blocker.unblock():
        fleet = Fleet(request.param, cuttable=False, leased_cron=SCALED)
        try:
            fleet.migrate()
            connections["default"] = connections[fleet.database.alias]
            ContentType.objects.clear_cache()
            fleet.start_supervisors(1)
            yield fleet
            fleet.stop_supervisors()
        finally:
            connections["default"] = default
            ContentType.objects.clear_cache()
            fleet.close()


@pytest.fixture
def ids(running_fleet: Fleet) -> Sequence[int]:
    """Return the ids of jobs that share a crontab and are planned, none of them due for weeks."""
    crontab = CrontabSchedule.objects.create(minute="10", day_of_month="31", timezone="UTC")
    name = f"job {next(_numbers)}"
    PeriodicTask.objects.bulk_create(
        PeriodicTask(name=f"{name}.{number}", task=TASK, crontab=crontab) for number in range(_SHARING)
    )
    ids = list(PeriodicTask.objects.filter(crontab=crontab).values_list("id", flat=True))
    wait_until(lambda: len(read_plans(ids)) == _SHARING, "the jobs to be planned", within_s=_AT_ALL_S)
    return ids


def wait_until_noticed(fleet: Fleet, before: Plans, edited: Sequence[int]) -> None:
    """Return when all plans have changed; fail if that takes more than a poll and a second."""
    started = time.monotonic()
    wait_until(lambda: have_changed(before, edited), f"the edit of {edited} to be noticed", within_s=_AT_ALL_S)
    took_s = time.monotonic() - started
    assert took_s <= fleet.timing.poll_interval_s + _BESIDE_POLL_S


def elsewhere(fleet: Fleet, call: Callable[[], Found]) -> Found:
    """Return what a call returns that has a database connection of its own."""

    def run() -> Found:
        connections["default"] = connections[fleet.database.alias]
        try:
            return call()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(run).result()


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_edit_jobs(running_fleet: Fleet, ids: Sequence[int], edit: Edit) -> None:
    """Whatever the way, the plans follow within a poll and a second, and those of other jobs stay as they are."""
    before = read_plans(ids)
    edited = edit(ids)
    wait_until_noticed(running_fleet, before, edited)
    others = [job_id for job_id in ids if job_id not in edited]
    assert read_plans(others) == {job_id: before[job_id] for job_id in others}


def test_edit_in_a_transaction_that_stays_open(running_fleet: Fleet, ids: Sequence[int]) -> None:
    """It counts from its commit, however many later edits were noticed in between."""
    before = read_plans(ids)
    with transaction.atomic():
        update(ids)
        if not running_fleet.database.waits_for_frozen_writers:  # SQLite: one writer at a time
            created = elsewhere(running_fleet, lambda: bulk_create(ids))
            elsewhere(running_fleet, lambda: wait_until_noticed(running_fleet, {}, created))
        assert elsewhere(running_fleet, lambda: read_plans(ids)) == before
    wait_until_noticed(running_fleet, before, ids)


def test_edit_that_is_rolled_back(running_fleet: Fleet, ids: Sequence[int]) -> None:
    """It never was: a later edit is noticed, and it is not."""
    before = read_plans(ids)
    with transaction.atomic():
        update(ids)
        transaction.set_rollback(True)
    created = bulk_create(ids)
    wait_until_noticed(running_fleet, {}, created)
    assert read_plans(ids) == before
