"""What shared SQL needs to know of a vendor."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from django.db.backends.base.base import BaseDatabaseWrapper

Columns = Mapping[str, str]
"""Column name to kind (``integer`` or ``text``) of rows that are handed over as one JSON parameter."""


class Dialect(Protocol):
    """The SQL of one vendor, as fragments. Parameters are named (``%(name)s``) everywhere."""

    @property
    def vendor(self) -> str: ...

    @property
    def now_ms(self) -> str:
        """The database's clock: milliseconds since the Unix epoch. The one seam that tests may replace."""
        ...

    @property
    def begin(self) -> Sequence[str]:
        """Statements that open a read-committed transaction with its timeouts."""
        ...

    @property
    def begin_reading(self) -> Sequence[str]:
        """The same for a transaction that only reads: it takes no lock that a writer meets, and may take longer."""
        ...

    def connection_options(self) -> dict[str, Any]:
        """Return what to add to the alias's ``OPTIONS``: deadlines on the client's side."""
        ...

    def find_file(self, settings: Mapping[str, Any]) -> Hashable:
        """Return what tells the database's file from another that takes its place; ``None``: there is no file.

        Args:
            settings: the alias's entry of ``DATABASES``.
        """
        ...

    def prepare(self, connection: BaseDatabaseWrapper) -> Sequence[str]:
        """Set up a new connection; return the statements to run on it once."""
        ...

    def watch(self, connection: BaseDatabaseWrapper, *, seconds: float) -> AbstractContextManager[None]:
        """Return a context that ends a statement whose answer does not come; nothing where the driver does so."""
        ...

    def is_missing_table(self, error: Exception) -> bool: ...

    def shared(self, table: str) -> str:
        """Return the name, in SQL, of a table that all tenants of the database share, whatever schema is entered."""
        ...

    def enter_schema(self, schema: str) -> str:
        """Return the statement after which, to the end of the transaction, bare table names are those of a schema."""
        ...

    def is_connection_lost(self, error: Exception, connection: BaseDatabaseWrapper) -> bool:
        """Return whether an error on an open connection means that it is no longer one."""
        ...

    def rows(self, parameter: str, columns: Columns, *, alias: str) -> str:
        """Return a FROM item that unfolds a JSON array of objects; a missing key is NULL."""
        ...

    def update_from(self, table: str, *, rows: str, assignments: Mapping[str, str], where: str) -> str:
        """Return an UPDATE of ``table`` (named ``t``) from ``rows``.

        ``where`` joins the two by the primary key of ``t``, and must name every condition on ``t`` itself: those in a
        subquery are not checked again after a wait for a row lock.
        """
        ...

    def insert_or_ignore(self, table: str, *, columns: Sequence[str], select: str, conflict: Sequence[str]) -> str:
        """Return an INSERT … SELECT that leaves existing rows (by the unique columns ``conflict``) alone."""
        ...

    def concatenate(self, parts: Sequence[str], *, separator: str) -> str:
        """Return an expression that joins text expressions; a NULL is the empty string."""
        ...

    def instant_text(self, column: str) -> str:
        """Return a date-time column as text that depends on no session setting; never fails, whatever it holds.

        Local time comes with its zone (``2026-06-01 12:00:00 @Asia/Tokyo``): where a project without ``USE_TZ`` moves
        to another zone its rows mean other instants, and are to be planned anew.
        """
        ...

    def number_text(self, column: str) -> str:
        """Return a number or boolean column as text."""
        ...

    def differs(self, left: str, right: str) -> str:
        """Return a comparison that sees every difference, of case and of trailing blanks too."""
        ...

    def md5(self, expression: str) -> str:
        """Return a digest of a text expression, to be compared with this vendor's only; never fails."""
        ...

    def instant_ms(self, column: str) -> str:
        """Return a date-time column, read as UTC, as milliseconds; NULL where it is no such instant."""
        ...

    def any_of(self, column: str, parameter: str) -> str:
        """Return the condition that an integer column is among the values of a parameter made by :meth:`id_list`."""
        ...

    def id_list(self, ids: Collection[int]) -> Any:
        """Return the parameter for :meth:`any_of`; ``ids`` is not empty."""
        ...

    @property
    def skip_locked(self) -> str:
        """The tail of a SELECT that locks what it reads and passes over what others have locked."""
        ...
