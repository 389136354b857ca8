"""MySQL 8 and MariaDB 10.6+ through mysqlclient."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

from django.db.backends.base.base import BaseDatabaseWrapper

from django_leased_cron.database.dialect import Columns

_NO_SUCH_TABLE = 1146
# Gone, lost, shutting down, killed, idle for too long (MariaDB, MySQL).
_LOST = frozenset({2006, 2013, 1053, 1927, 4031})
_KINDS = {"integer": "BIGINT", "text": "TEXT"}

# The defaults keep a dead client's locks for eight hours. MariaDB can end a transaction that idles; MySQL cannot, so
# there the whole connection is ended; the session opens another when it is next needed.
_IDLE_TRANSACTION = "idle_transaction_timeout = 1"
_IDLE_CONNECTION = "wait_timeout = 2"


@dataclass(frozen=True, slots=True, kw_only=True)
class MySQLDialect:
    vendor: str = "mysql"
    storage_zone: str = "UTC"
    # UTC_TIMESTAMP, because UNIX_TIMESTAMP(NOW()) is ambiguous in the autumn fold of the session's zone. It stands
    # still within a statement, at its start: stale is the safe direction.
    now_ms: str = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)"
    # No snapshot is taken before the first read: on these servers no table may be read before the guard.
    begin: Sequence[str] = ("SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION")
    begin_reading: Sequence[str] = begin
    skip_locked: str = " FOR UPDATE SKIP LOCKED"

    def connection_options(self) -> dict[str, Any]:
        return {"connect_timeout": 2, "read_timeout": 3, "write_timeout": 3}

    def find_file(self, settings: Mapping[str, Any]) -> None:
        return None

    def prepare(self, connection: BaseDatabaseWrapper) -> Sequence[str]:
        idle = _IDLE_TRANSACTION if cast(Any, connection).mysql_is_mariadb else _IDLE_CONNECTION
        return (f"SET SESSION innodb_lock_wait_timeout = 1, {idle}",)

    def watch(self, connection: BaseDatabaseWrapper, *, seconds: float) -> AbstractContextManager[None]:
        return nullcontext()

    def is_missing_table(self, error: Exception) -> bool:
        return bool(error.args) and error.args[0] == _NO_SUCH_TABLE

    def shared(self, table: str) -> str:
        return table

    def enter_schema(self, schema: str) -> str:
        message = "only PostgreSQL has a schema for each tenant"
        raise NotImplementedError(message)

    def is_connection_lost(self, error: Exception, connection: BaseDatabaseWrapper) -> bool:
        return bool(error.args) and error.args[0] in _LOST

    def rows(self, parameter: str, columns: Columns, *, alias: str) -> str:
        shape = ", ".join(f"{name} {_KINDS[kind]} PATH '$.{name}'" for name, kind in columns.items())
        return f"JSON_TABLE(%({parameter})s, '$[*]' COLUMNS ({shape})) AS {alias}"

    def update_from(self, table: str, *, rows: str, assignments: Mapping[str, str], where: str) -> str:
        changes = ", ".join(f"t.{column} = {value}" for column, value in assignments.items())
        # The primary key, forced: a small table is scanned otherwise, and the scan waits for rows locked by others.
        return f"UPDATE {rows} STRAIGHT_JOIN {table} AS t FORCE INDEX (PRIMARY) SET {changes} WHERE {where}"

    def insert_or_ignore(self, table: str, *, columns: Sequence[str], select: str, conflict: Sequence[str]) -> str:
        # Not INSERT IGNORE: it swallows real errors too.
        same = f"{table}.{conflict[0]} = {table}.{conflict[0]}"
        return f"INSERT INTO {table} ({', '.join(columns)}) {select} ON DUPLICATE KEY UPDATE {same}"

    def concatenate(self, parts: Sequence[str], *, separator: str) -> str:
        joined = ", ".join(f"COALESCE({part}, '')" for part in parts)
        return f"CONCAT_WS('{separator}', {joined})"

    def instant_text(self, column: str) -> str:
        text = f"CAST({column} AS CHAR)"
        return text if self.storage_zone == "UTC" else f"CONCAT({text}, ' @{self.storage_zone}')"

    def number_text(self, column: str) -> str:
        return f"CAST({column} AS CHAR)"

    def differs(self, left: str, right: str) -> str:
        # The usual collations ignore case and trailing blanks.
        return f"CAST({left} AS BINARY) <> CAST({right} AS BINARY)"

    def md5(self, expression: str) -> str:
        return f"MD5({expression})"

    def instant_ms(self, column: str) -> str:
        return f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {column}) DIV 1000"

    def any_of(self, column: str, parameter: str) -> str:
        return f"{column} IN %({parameter})s"

    def id_list(self, ids: Collection[int]) -> tuple[int, ...]:
        return tuple(sorted(ids))
