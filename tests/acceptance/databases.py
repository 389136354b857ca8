"""Databases of a fleet's own: one on a server, or a file."""

from __future__ import annotations

import shutil
import sys
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

    def copy(self, name: str, cleanup: ExitStack) -> Database:
        """Return another one with the same tables and rows; nobody else may use this one meanwhile."""
        ...

    def find_room(self) -> int:
        """Return how many connections there may be to it and its copies together."""
        ...


class ServerDatabase:
    """A database on PostgreSQL, MariaDB or MySQL."""

    waits_for_frozen_writers = False

    def __init__(
        self, server: Server, name: str, cleanup: ExitStack, *, cuttable: bool, template: str | None = None
    ) -> None:
        self.alias = name
        self._server = server
        direct_url = f"{server.url.rstrip('/')}/{name}"
        _add_alias(name, direct_url, cleanup)
        self.announces_releases = connections[name].vendor == "postgresql"
        self._run_on_server(f"CREATE DATABASE {name}" + (f" TEMPLATE {template}" if template else ""))
        if not server.is_own:
            cleanup.callback(self._drop)
        self.line, self.url = lay_line(server, direct_url, cleanup, cuttable=cuttable)

    def copy(self, name: str, cleanup: ExitStack) -> Database:
        assert connections[self.alias].vendor == "postgresql", "only PostgreSQL copies databases"
        connections[self.alias].close()
        return ServerDatabase(self._server, name, cleanup, cuttable=False, template=self.alias)

    def find_room(self) -> int:
        with connections[self.alias].cursor() as cursor:
            cursor.execute("SHOW max_connections")
            return int(cursor.fetchone()[0])

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
        self._folder, self._file = folder, here / "db.sqlite3"
        self.url = f"sqlite:///{self._file}"
        self.line: Line = FolderLine(here)
        _add_alias(name, self.url, cleanup)

    def copy(self, name: str, cleanup: ExitStack) -> Database:
        connections[self.alias].close()  # the last connection writes what is in the log to the file
        (self._folder / name).mkdir()
        other = FileDatabase(self._folder / name, name, cleanup)
        shutil.copy(self._file, other._file)
        return other

    def find_room(self) -> int:
        return sys.maxsize


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
