"""SQLite 3.35+: one machine, one writer at a time."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from django_leased_cron.database.dialect import Columns


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLiteDialect:
    vendor: str = "sqlite"
    storage_zone: str = "UTC"
    # 'now' stands still within a statement, so its two readings agree; unixepoch('subsec') would need 3.42.
    now_ms: str = (
        "(CAST(strftime('%%s', 'now') AS INTEGER) * 1000 + CAST(substr(strftime('%%f', 'now'), 4, 3) AS INTEGER))"
    )
    # IMMEDIATE: a transaction that begins as a reader cannot wait for the write lock later, it fails at once.
    begin: Sequence[str] = ("BEGIN IMMEDIATE",)
    begin_reading: Sequence[str] = ("BEGIN",)
    skip_locked: str = ""

    def connection_options(self) -> dict[str, Any]:
        return {"timeout": 2}

    def find_file(self, settings: Mapping[str, Any]) -> tuple[int, int] | None:
        # An open connection goes on with a file that was deleted or replaced, and sees nothing of the new one.
        try:
            found = os.stat(settings["NAME"])
        except OSError:  # gone; or a name that is no path: a database in memory
            return None
        return found.st_dev, found.st_ino

    def prepare(self, connection: BaseDatabaseWrapper) -> Sequence[str]:
        # No types are checked here: one row with bytes that are no text must not make all rows unreadable.
        connection.connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        return ()

    def watch(self, connection: BaseDatabaseWrapper, *, seconds: float) -> AbstractContextManager[None]:
        return nullcontext()

    def is_missing_table(self, error: Exception) -> bool:
        return "no such table" in str(error)

    def shared(self, table: str) -> str:
        return table

    def enter_schema(self, schema: str) -> str:
        message = "only PostgreSQL has a schema for each tenant"
        raise NotImplementedError(message)

    def is_connection_lost(self, error: Exception, connection: BaseDatabaseWrapper) -> bool:
        return False

    def rows(self, parameter: str, columns: Columns, *, alias: str) -> str:
        shape = ", ".join(f"json_extract(value, '$.{name}') AS {name}" for name in columns)
        # LIMIT -1: without one the subquery is dissolved, and where the planner puts the table outside, all rows are
        # parsed again for each of its rows (a confirm of 500 took 105 ms, and takes 3).
        return f"(SELECT {shape} FROM json_each(%({parameter})s) LIMIT -1) AS {alias}"

    def update_from(self, table: str, *, rows: str, assignments: Mapping[str, str], where: str) -> str:
        changes = ", ".join(f"{column} = {value}" for column, value in assignments.items())
        return f"UPDATE {table} AS t SET {changes} FROM {rows} WHERE {where}"

    def insert_or_ignore(self, table: str, *, columns: Sequence[str], select: str, conflict: Sequence[str]) -> str:
        # WHERE: without one the parser takes ON CONFLICT for a join condition.
        where = "" if " WHERE " in select else " WHERE true"
        target = ", ".join(conflict)
        return f"INSERT INTO {table} ({', '.join(columns)}) {select}{where} ON CONFLICT ({target}) DO NOTHING"

    def concatenate(self, parts: Sequence[str], *, separator: str) -> str:
        return f" || '{separator}' || ".join(f"COALESCE({part}, '')" for part in parts)

    def instant_text(self, column: str) -> str:
        # CAST, because the driver parses a bare column of this type and fails on what it cannot read.
        text = f"CAST({column} AS TEXT)"
        return text if self.storage_zone == "UTC" else f"{text} || ' @{self.storage_zone}'"

    def number_text(self, column: str) -> str:
        return f"CAST({column} AS TEXT)"

    def differs(self, left: str, right: str) -> str:
        return f"{left} <> {right}"

    def md5(self, expression: str) -> str:
        # Django adds MD5 to every SQLite connection, in Python, which text that is not UTF-8 cannot be handed to: one
        # row with such would fail the statement for all (I8).
        return f"MD5(hex(CAST({expression} AS BLOB)))"

    def instant_ms(self, column: str) -> str:
        return f"CAST(strftime('%%s', CAST({column} AS TEXT)) AS INTEGER) * 1000"

    def any_of(self, column: str, parameter: str) -> str:
        return f"{column} IN (SELECT value FROM json_each(%({parameter})s))"

    def id_list(self, ids: Collection[int]) -> str:
        return json.dumps(sorted(ids))
