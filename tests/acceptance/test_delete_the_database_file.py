"""SQLite: the file is deleted or replaced under schedulers that have it open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connections

from django_leased_cron.models import Occurrence
from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.ordeal import undergo
from tests.acceptance.waiting import now_ms

_AWAY_S = 5.0
_BACK_WITHIN_S = 3.0
_AFTER_COPY = 6
"""Occurrences of two due times: what was recorded after the copy was made is lost, and sent again."""

on_sqlite = pytest.mark.parametrize("stack", ["sqlite-filesystem"], indirect=True)


@on_sqlite
def test_delete_the_database_file_and_put_it_back(fleet: Fleet, report: Report) -> None:
    """Nothing goes out by what is left of it in memory; from the copy on, by the copy alone."""
    ordeal = undergo(fleet, _deleted(fleet), seconds=_AWAY_S)
    report(ordeal)
    ordeal.assert_nothing_was_harmed(within_s=_BACK_WITHIN_S, sent_again=_AFTER_COPY)
    assert ordeal.errors_with("is gone")


@pytest.mark.full
@on_sqlite
def test_replace_the_database_file_by_a_copy(fleet: Fleet, report: Report) -> None:
    """In one step, as a restore does: everybody goes on in the new one."""
    at_ms: list[int] = []
    ordeal = undergo(fleet, _replaced(fleet, at_ms), seconds=2.0)
    report(ordeal)
    ordeal.assert_nothing_was_harmed(within_s=_BACK_WITHIN_S, sent_again=_AFTER_COPY)
    assert Occurrence.objects.using(fleet.database.alias).filter(due_at_ms__gt=at_ms[0], state="sent").exists()


@contextmanager
def _deleted(fleet: Fleet) -> Iterator[None]:
    file, copy = _copy(fleet)
    for path in file.parent.glob(f"{file.name}*"):
        if path != copy:
            path.unlink()
    yield
    copy.rename(file)


@contextmanager
def _replaced(fleet: Fleet, at_ms: list[int]) -> Iterator[None]:
    file, copy = _copy(fleet)
    for companion in ("-wal", "-shm"):
        file.with_name(file.name + companion).unlink(missing_ok=True)
    copy.rename(file)
    at_ms.append(now_ms())
    yield


def _copy(fleet: Fleet) -> tuple[Path, Path]:
    """Copy the database as it is now, and close the test's own connection; return the file and the copy."""
    connection = connections[fleet.database.alias]
    file = Path(connection.settings_dict["NAME"])
    copy = file.with_name(f"{file.name}-copy")
    with connection.cursor() as cursor:
        cursor.execute(f"VACUUM INTO '{copy}'")
    connection.close()
    return file, copy
