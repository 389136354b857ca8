"""Databases of a fleet's own: one on a server, or a file."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Protocol

from django.core.management import call_command
from django.db import connections
from django.db.utils import ConnectionHandler

from example_project.database_url import parse_database_url
from tests.acceptance.lines import FolderLine, Line, lay_line
from tests.acceptance.pgbouncer import PgBouncer
from tests.servers import Server

FILE_FOLDER: Final = "database"
"""Where the file is, if the database is one."""


class Database(Protocol):
    """A database that is created, empty and not migrated, when it is built, and dropped by the cleanup.

    Attributes:
        alias: under which the test itself reaches it, whatever the fleet's processes can reach.
        url: as the fleet's processes get it.
        line: between the processes and the database.
        announces_releases: a standby hears of a lease that is free; else it sees it at its next poll.
        waits_for_frozen_writers: a process that stands still inside a transaction keeps everybody out.
    """

    alias: str
    url: str
    line: Line
    announces_releases: bool
    waits_for_frozen_writers: bool


class ServerDatabase:
    """A database on PostgreSQL, MariaDB or MySQL."""

    waits_for_frozen_writers = False

    def __init__(self, server: Server, name: str, cleanup: ExitStack, *, cuttable: bool) -> None:
        self.alias = name
        direct_url = f"{server.url.rstrip('/')}/{name}"
        _add_alias(name, direct_url, cleanup)
        self.announces_releases = connections[name].vendor == "postgresql"
        self._run_on_server(f"CREATE DATABASE {name}")
        if not server.is_own:
            cleanup.callback(self._drop)
        self.line, self.url = lay_line(server, direct_url, cleanup, cuttable=cuttable)

    def _drop(self) -> None:
        connection = connections[self.alias]
        connection.close()
        # The server may not have noticed yet that processes of the fleet are gone.
        force = " WITH (FORCE)" if connection.vendor == "postgresql" else ""
        self._run_on_server(f"DROP DATABASE {self.alias}{force}")

    def _run_on_server(self, sql: str) -> None:
        connection: Any = connections[self.alias]
        with connection._nodb_cursor() as cursor:
            cursor.execute(sql)


class PooledDatabase(ServerDatabase):
    """A database on PostgreSQL that the fleet's processes see through a pool of transactions."""

    def __init__(self, server: Server, name: str, cleanup: ExitStack) -> None:
        super().__init__(server, name, cleanup, cuttable=False)
        self.pool = PgBouncer(server, cleanup)
        self.url = self.pool.through(self.url)
        self.announces_releases = False


class FileDatabase:
    """A SQLite file."""

    announces_releases = False
    waits_for_frozen_writers = True

    def __init__(self, folder: Path, name: str, cleanup: ExitStack) -> None:
        self.alias = name
        here = folder / FILE_FOLDER
        here.mkdir(exist_ok=True)
        self.url = f"sqlite:///{here / 'db.sqlite3'}"
        self.line: Line = FolderLine(here)
        _add_alias(name, self.url, cleanup)


def migrate(database: Database) -> None:
    """Do what ``manage.py migrate`` does, without the second that a process takes to start."""
    call_command("migrate", database=database.alias, verbosity=0)


def _add_alias(alias: str, url: str, cleanup: ExitStack) -> None:
    connections.settings[alias] = ConnectionHandler({"default": parse_database_url(url)}).settings["default"]
    cleanup.callback(_remove_alias, alias)


def _remove_alias(alias: str) -> None:
    connections[alias].close()
    del connections[alias]
    del connections.settings[alias]
