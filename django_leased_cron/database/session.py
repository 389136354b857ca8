"""A connection of our own, with deadlines, used by one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from copy import copy
from typing import Any, TypeVar

from django.db import Error as DjangoDatabaseError
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_leased_cron.database.dialect import Dialect
from django_leased_cron.exceptions import (
    CommitOutcomeUnknownError,
    DatabaseUnavailableError,
    DatabaseUnreachableError,
    MissingTableError,
    StoreError,
)

Result = TypeVar("Result")

# A second more than the server's own limits on a statement.
_WRITE_WITHIN_S = 3.0
_READ_WITHIN_S = 11.0


class Session:
    """One connection, outside Django's per-thread ones, so that nothing of the project's shares its transactions.

    Every statement runs in a transaction that sets its own timeouts. After any error the connection is closed: what
    state it is in is unknown, and the server rolls back what it did not commit.
    """

    def __init__(self, alias: str, dialect: Dialect) -> None:
        self.alias = alias
        self.dialect = dialect
        self.schema = ""
        """The schema whose tables bare names are; empty: as the connection finds them."""
        self._wrapper: BaseDatabaseWrapper | None = None
        self._file: Hashable = None
        self._row_count = 0
        self._answer_within_s = _WRITE_WITHIN_S

    @contextmanager
    def transaction(self, *, reading: bool = False) -> Iterator[Session]:
        """Run the block in one read-committed transaction; ``reading``: one that changes and locks nothing.

        Raises:
            MissingTableError: a table is not there.
            CommitOutcomeUnknownError: COMMIT was sent and not answered.
            DatabaseUnavailableError: anything else that stopped it; nothing was committed.
            ``DatabaseUnreachableError`` where there is no connection.
        """
        self._answer_within_s = _READ_WITHIN_S if reading else _WRITE_WITHIN_S
        with self._closing_on_errors():
            statements = [*(self.dialect.begin_reading if reading else self.dialect.begin)]
            if self.schema:
                # In one message with the last of them: a tenant of many costs no round trip more.
                statements[-1] += f"; {self.dialect.enter_schema(self.schema)}"
            self._on_live_connection(lambda: self._begin(statements))
            yield self
        try:
            self.execute("COMMIT")
        except DjangoDatabaseError as exc:
            self.close()
            raise CommitOutcomeUnknownError(self.alias, f"no answer to COMMIT: {exc}") from exc

    def glance(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Run one small read by itself, at a third of a transaction's round trips; return its rows.

        Raises:
            MissingTableError: a table is not there.
            DatabaseUnavailableError: anything else.
        """
        self._answer_within_s = _WRITE_WITHIN_S
        if self.schema:
            # Two statements in one message are one transaction.
            sql = f"{self.dialect.enter_schema(self.schema)}; {sql}"
        with self._closing_on_errors():
            return self._on_live_connection(lambda: self.fetch(sql, parameters))

    def execute(self, sql: str, parameters: Mapping[str, Any] | None = None) -> int:
        """Execute one statement inside :meth:`transaction`; return the number of rows it matched."""
        self.fetch(sql, parameters, wanted=False)
        return self._row_count

    def fetch(
        self, sql: str, parameters: Mapping[str, Any] | None = None, *, wanted: bool = True
    ) -> list[tuple[Any, ...]]:
        """Execute one statement inside :meth:`transaction`; return its rows."""
        wrapper = self._open_wrapper()
        watched = self.dialect.watch(wrapper, seconds=self._answer_within_s)
        # The backend's bare cursor: no query log that grows under DEBUG, Django's translation of errors kept.
        with wrapper.wrap_database_errors, watched, closing(wrapper.create_cursor()) as cursor:
            cursor.execute(sql, parameters or {})  # with parameters always: "%%" means the same everywhere
            while self.schema and cursor.nextset():
                pass  # of several statements, the last one's rows
            self._row_count = cursor.rowcount
            return list(cursor.fetchall()) if wanted else []

    @contextmanager
    def driver_connection(self) -> Iterator[Any]:
        """Lend the driver's own connection; its errors become those of :meth:`transaction`."""
        wrapper = self._open_wrapper()
        try:
            with wrapper.wrap_database_errors:
                yield wrapper.connection
        except DjangoDatabaseError as exc:
            error = self._translated(exc)
            self.close()
            raise error from exc

    def close(self) -> None:
        """Close the connection; the next transaction opens another. Never raises."""
        wrapper, self._wrapper = self._wrapper, None
        if wrapper is not None:
            with suppress(DjangoDatabaseError):  # it was broken: the server ends its own side
                # Django's SQLite leaves a database in memory open, for its data's sake: here it is another's to keep.
                BaseDatabaseWrapper.close(wrapper)

    @contextmanager
    def _closing_on_errors(self) -> Iterator[None]:
        try:
            yield
        except DjangoDatabaseError as exc:
            error = self._translated(exc)
            self.close()
            raise error from exc
        except BaseException:
            self.close()
            raise

    def _open_wrapper(self) -> BaseDatabaseWrapper:
        if self._wrapper is None:
            raise DatabaseUnreachableError(self.alias, "the connection is closed")
        return self._wrapper

    def _begin(self, statements: Sequence[str]) -> None:
        for statement in statements:
            self.execute(statement)

    def _on_live_connection(self, first: Callable[[], Result]) -> Result:
        """Open the connection if need be and do the first thing on it, which must be harmless to do twice."""
        if self._file is not None:
            self._check_file()
        idle = self._wrapper
        try:
            self._open()
            return first()
        except DjangoDatabaseError:
            # A connection may die while it lies idle (the server was restarted; MySQL's wait_timeout), and nothing
            # has been asked of it yet. One that is merely locked out stays usable: then waiting again helps nobody.
            if idle is None or idle.is_usable():
                raise
            self.close()
            self._open()
            return first()

    def _check_file(self) -> None:
        """Give up a connection to a file that is no longer the database's.

        One that is gone is not made anew: with the tables missing, whoever puts it back would write over a file in use.
        """
        project = connections[self.alias]
        found = self.dialect.find_file(project.settings_dict)
        if found != self._file:
            self.close()
        if found is None:
            raise DatabaseUnreachableError(self.alias, f"the file {str(project.settings_dict['NAME'])!r} is gone")

    def _open(self) -> None:
        if self._wrapper is not None:
            return
        project = connections[self.alias]
        settings = {**project.settings_dict}
        settings["OPTIONS"] = {**settings.get("OPTIONS", {}), **self.dialect.connection_options()}
        # The pool, if the project has one, is sized for its requests; ours would wait behind them.
        settings["OPTIONS"].pop("pool", None)
        wrapper = type(project)(settings, alias=self.alias)
        wrapper.inc_thread_sharing()  # whoever borrows the session uses it alone
        with wrapper.wrap_database_errors:
            wrapper.connect()
        self._wrapper = wrapper
        self._file = self.dialect.find_file(project.settings_dict)
        for statement in self.dialect.prepare(wrapper):
            self.execute(statement)

    def _translated(self, error: DjangoDatabaseError) -> StoreError:
        if self.dialect.is_missing_table(error):
            return MissingTableError(self.alias, str(error).splitlines()[0], schema=self.schema)
        lines = str(error).strip().splitlines()
        detail = lines[0] if lines else type(error).__name__
        if self._wrapper is None or self.dialect.is_connection_lost(error, self._wrapper):
            return DatabaseUnreachableError(self.alias, detail)
        return DatabaseUnavailableError(self.alias, detail)


class SessionPool:
    """Sessions of one database, lent to one borrower each; as many as are borrowed at once, and no more."""

    def __init__(self, alias: str, dialect: Dialect) -> None:
        self.alias = alias
        self.dialect = dialect
        self.schema = ""
        self._lock = threading.Lock()
        self._free: list[Session] = []

    def in_schema(self, schema: str) -> SessionPool:
        """Return a pool of the same sessions, in which bare table names are those of a schema."""
        pool = copy(self)
        pool.schema = schema
        return pool

    @contextmanager
    def borrow(self) -> Iterator[Session]:
        with self._lock:
            session = self._free.pop() if self._free else Session(self.alias, self.dialect)
        session.schema = self.schema
        try:
            yield session
        finally:
            with self._lock:
                self._free.append(session)

    @contextmanager
    def transaction(self, *, reading: bool = False) -> Iterator[Session]:
        """Borrow a session for one transaction."""
        with self.borrow() as session, session.transaction(reading=reading):
            yield session

    def glance(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Borrow a session for one small read."""
        with self.borrow() as session:
            return session.glance(sql, parameters)

    def close(self) -> None:
        """Close the sessions that nobody has borrowed."""
        with self._lock:
            free = [*self._free]
            self._free.clear()
        for session in free:
            session.close()
