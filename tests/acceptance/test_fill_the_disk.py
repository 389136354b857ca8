"""The disk of the database is full for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from django.db import connections
from pytest_django import DjangoDbBlocker

from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.ordeal import EVERYTHING, undergo

_FULL_S = 8.0
_BACK_WITHIN_S = 5.0
_A_SECOND = 200
"""Enough to need more pages than the files have."""
_DISK_MB = {"postgres-redis": 250, "mariadb-redis": 400, "sqlite-filesystem": 8}


@pytest.fixture(params=_DISK_MB)
def fleet_on_small_disk(request: pytest.FixtureRequest, django_db_blocker: DjangoDbBlocker) -> Iterator[Fleet]:
    """Yield a fleet whose servers, or whose file, have little room."""
    with django_db_blocker.unblock():
        fleet = Fleet(request.param, leased_cron=EVERYTHING, on_own_servers=True, disk_mb=_DISK_MB[request.param])
        try:
            fleet.migrate()
            yield fleet
        finally:
            fleet.close()


@pytest.mark.full
def test_fill_the_disk_of_the_database(fleet_on_small_disk: Fleet, report: Report) -> None:
    """Nothing goes out that cannot be recorded; a server that gave up is started again when there is room."""
    fleet = fleet_on_small_disk
    ordeal = undergo(fleet, _full(fleet), seconds=_FULL_S, jobs_count=_A_SECOND)
    report(ordeal)
    assert any(ordeal.errors.values()), "the disk was not full enough for anybody to notice"
    # A publication whose confirm could not be written is sent again.
    ordeal.assert_nothing_was_harmed(within_s=_BACK_WITHIN_S, sent_again=2 * _A_SECOND, outages=3)


@contextmanager
def _full(fleet: Fleet) -> Iterator[None]:
    connection = connections[fleet.database.alias]
    server = None if connection.vendor == "sqlite" else fleet.own_database_server
    filler = (Path(connection.settings_dict["NAME"]).parent if server is None else server.folder) / "filler"
    connection.close()
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))
    yield
    filler.unlink()
    if server is not None and not server.is_running:
        server.start()
