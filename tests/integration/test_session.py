"""A connection of our own, when what it leads to is gone or is no longer the same."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from django.db import connections, transaction
from pytest_django import DjangoDbBlocker

from django_leased_cron.database import build_dialect
from django_leased_cron.database.session import Session
from django_leased_cron.database.tables import LEASE
from django_leased_cron.exceptions import DatabaseUnavailableError, DatabaseUnreachableError
from django_leased_cron.models import SchedulerLease

OWN_CONNECTION = {"postgres": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()"}
END_CONNECTION = {"postgres": "SELECT pg_terminate_backend(%s)", "mysql": "KILL %s"}

on_servers = pytest.mark.parametrize("database_alias", ["postgres", "mysql"], indirect=True)


@on_servers
def test_connection_that_ends_in_a_transaction_is_an_unreachable_database(database_alias: str) -> None:
    """Whoever asks next will hear the same, so it is told of once."""
    session = Session(database_alias, build_dialect(database_alias))
    with pytest.raises(DatabaseUnreachableError), session.transaction():
        _end_its_connection(session)
    assert session.glance("SELECT 1") == [(1,)]
    session.close()


@on_servers
def test_server_that_is_not_there_is_an_unreachable_database(
    database_alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses connections."""
    monkeypatch.setitem(connections[database_alias].settings_dict, "PORT", "1")
    with pytest.raises(DatabaseUnreachableError):
        Session(database_alias, build_dialect(database_alias)).glance("SELECT 1")


@on_servers
def test_lock_of_somebody_else_is_no_unreachable_database(database_alias: str) -> None:
    """What else is asked of it may work."""
    session = Session(database_alias, build_dialect(database_alias))
    lease = SchedulerLease.objects.using(database_alias).create(
        tenant_key="acme", epoch=1, acquired_at_ms=0, expires_at_ms=0, progressed_at_ms=0
    )
    with transaction.atomic(using=database_alias):
        SchedulerLease.objects.using(database_alias).select_for_update().get(id=lease.id)
        with pytest.raises(DatabaseUnavailableError) as caught, session.transaction():
            session.execute(f"UPDATE {LEASE} SET epoch = 2")
    assert not isinstance(caught.value, DatabaseUnreachableError)
    session.close()


def _end_its_connection(session: Session) -> None:
    ((number,),) = session.fetch(OWN_CONNECTION[session.alias])
    with connections[session.alias].cursor() as cursor:
        cursor.execute(END_CONNECTION[session.alias], [number])
    session.execute("SELECT 1")


class TestFile:
    """SQLite: an open connection goes on with a file that was deleted, and sees nothing of the one in its place."""

    @pytest.fixture
    def file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        path = tmp_path / "db.sqlite3"
        monkeypatch.setitem(connections["sqlite"].settings_dict, "NAME", str(path))
        return path

    @pytest.fixture
    def session(self, file: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[Session]:
        """Yield a session on a file with one table, called ``first``."""
        session = Session("sqlite", build_dialect("sqlite"))
        with django_db_blocker.unblock():
            with session.transaction():
                session.execute("CREATE TABLE first (id INTEGER)")
            yield session
            session.close()

    def test_file_that_is_gone_is_said_to_be(self, session: Session, file: Path) -> None:
        """And is not made anew: whoever puts it back would write over a file in use."""
        away = file.rename(file.with_name("away"))
        for _ in range(2):
            with pytest.raises(DatabaseUnreachableError, match=r"db\.sqlite3' is gone"):
                session.glance("SELECT * FROM first")
            with pytest.raises(DatabaseUnreachableError, match="is gone"), session.transaction():
                session.execute("INSERT INTO first VALUES (1)")
        assert not file.exists()
        away.rename(file)
        assert session.glance("SELECT * FROM first") == []

    def test_file_that_is_put_in_its_place_is_the_one_that_is_used(self, session: Session, file: Path) -> None:
        """As a restore does."""
        copy = file.with_name("copy")
        with closing(sqlite3.connect(copy)) as connection:
            connection.execute("CREATE TABLE second (id INTEGER)")
        assert session.glance("SELECT * FROM first") == []
        for companion in ("-wal", "-shm"):
            file.with_name(file.name + companion).unlink(missing_ok=True)
        copy.replace(file)
        assert session.glance("SELECT * FROM second") == []
