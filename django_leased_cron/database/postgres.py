"""PostgreSQL 14+ through psycopg 3, also behind a transaction-pooling proxy."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from django_leased_cron.database.deadline import DEADLINES
from django_leased_cron.database.dialect import Columns

_UNDEFINED_TABLE = "42P01"
_OPERATOR_INTERVENTION = "57P"
_KINDS = {"integer": "bigint", "text": "text"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresDialect:
    vendor: str = "postgresql"
    shared_schema: str = ""
    """Where the tables are that tenants with schemas of their own share; empty: wherever the search path finds them."""
    # clock_timestamp() moves within a transaction; after a wait for a row lock it is read anew.
    now_ms: str = "(extract(epoch from clock_timestamp()) * 1000)::bigint"
    # SET LOCAL, because a pooling proxy hands the next transaction to another backend and forgets SET.
    begin: Sequence[str] = (
        (
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '500ms';"
            " SET LOCAL statement_timeout = '2s'; SET LOCAL idle_in_transaction_session_timeout = '1s'"
        ),
    )
    begin_reading: Sequence[str] = (
        (
            "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; SET LOCAL statement_timeout = '10s';"
            " SET LOCAL idle_in_transaction_session_timeout = '1s'"
        ),
    )
    skip_locked: str = " FOR NO KEY UPDATE SKIP LOCKED"

    def connection_options(self) -> dict[str, Any]:
        return {
            # A pool hands each transaction to another backend, which knows no statement that one of them prepared.
            "prepare_threshold": None,
            # Values without a type, and several statements at once, are for a client that puts them together.
            "server_side_binding": False,
            "connect_timeout": 2,
            "tcp_user_timeout": 2000,
            "keepalives": 1,
            "keepalives_idle": 1,
            "keepalives_interval": 1,
            "keepalives_count": 2,
        }

    def find_file(self, settings: Mapping[str, Any]) -> None:
        return None

    def prepare(self, connection: BaseDatabaseWrapper) -> Sequence[str]:
        return ()

    def watch(self, connection: BaseDatabaseWrapper, *, seconds: float) -> AbstractContextManager[None]:
        return DEADLINES.watch(connection.connection.fileno(), seconds=seconds)

    def is_missing_table(self, error: Exception) -> bool:
        return getattr(error.__cause__, "sqlstate", None) == _UNDEFINED_TABLE

    def shared(self, table: str) -> str:
        return f"{_quote(self.shared_schema)}.{_quote(table)}" if self.shared_schema else table

    def enter_schema(self, schema: str) -> str:
        # This schema and no other: where a tenant's is gone, the shared one's tables must not be taken for it.
        return f"SET LOCAL search_path = {_quote(schema)}"

    def is_connection_lost(self, error: Exception, connection: BaseDatabaseWrapper) -> bool:
        # A session that is being ended is told so before its connection is closed.
        sqlstate = getattr(error.__cause__, "sqlstate", None) or ""
        return bool(connection.connection.closed) or sqlstate.startswith(_OPERATOR_INTERVENTION)

    def rows(self, parameter: str, columns: Columns, *, alias: str) -> str:
        shape = ", ".join(f"{name} {_KINDS[kind]}" for name, kind in columns.items())
        return f"jsonb_to_recordset(%({parameter})s::jsonb) AS {alias}({shape})"

    def update_from(self, table: str, *, rows: str, assignments: Mapping[str, str], where: str) -> str:
        changes = ", ".join(f"{column} = {value}" for column, value in assignments.items())
        return f"UPDATE {table} AS t SET {changes} FROM {rows} WHERE {where}"

    def insert_or_ignore(self, table: str, *, columns: Sequence[str], select: str, conflict: Sequence[str]) -> str:
        return f"INSERT INTO {table} ({', '.join(columns)}) {select} ON CONFLICT ({', '.join(conflict)}) DO NOTHING"

    def concatenate(self, parts: Sequence[str], *, separator: str) -> str:
        return f" || '{separator}' || ".join(f"COALESCE({part}, '')" for part in parts)

    def instant_text(self, column: str) -> str:
        # to_char, because ::text depends on the role's DateStyle; infinity stays what it is, and cannot be read.
        text = f"to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"
        return f"CASE WHEN isfinite({column}) THEN {text} ELSE {column}::text END"

    def number_text(self, column: str) -> str:
        return f"{column}::text"

    def differs(self, left: str, right: str) -> str:
        return f"{left} <> {right}"

    def md5(self, expression: str) -> str:
        return f"md5({expression})"

    def instant_ms(self, column: str) -> str:
        known = f"{column} BETWEEN '1970-01-01' AND '9999-12-31'"
        return f"CASE WHEN {known} THEN (extract(epoch from {column}) * 1000)::bigint END"

    def any_of(self, column: str, parameter: str) -> str:
        # Not = ANY: integer beside an array of bigint cannot be hashed, and is compared one by one (27 ms, not 4).
        return f"{column} IN (SELECT unnest(%({parameter})s::bigint[]))"

    def id_list(self, ids: Collection[int]) -> list[int]:
        return sorted(ids)


def _quote(name: str) -> str:
    escaped = name.replace('"', '""').replace("%", "%%")  # a statement's text is formatted with its parameters
    return f'"{escaped}"'
