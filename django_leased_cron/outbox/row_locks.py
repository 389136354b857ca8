"""Locking rows without waiting for anybody.

Whoever holds the lease lock must not wait for another row: an admin's open transaction on one job, or a worker's on one
occurrence, would stop the whole tenant for as long as it stays open.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django_leased_cron.database.dialect import Dialect
from django_leased_cron.database.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenRows:
    free: frozenset[int]
    """Locked by us now, until the transaction ends."""
    locked: frozenset[int]
    """Locked by others. A row that is in neither set does not exist."""


class RowLocks:
    """Locks rows of one table by id, in order of their ids, passing over those that others hold.

    SQLite has no row locks: there all rows are free, and the whole transaction has waited for its turn.
    """

    def __init__(self, dialect: Dialect, table: str) -> None:
        self._dialect = dialect
        found = f"SELECT id FROM {table} WHERE {dialect.any_of('id', 'ids')}"
        self._existing = found
        self._lock = f"{found} ORDER BY id{dialect.skip_locked}"

    def take(self, session: Session, ids: Collection[int]) -> TakenRows:
        free = self._read(session, self._lock, ids)
        left = set(ids) - free
        return TakenRows(free=free, locked=self._read(session, self._existing, left) if left else frozenset())

    def _read(self, session: Session, sql: str, ids: Collection[int]) -> frozenset[int]:
        return frozenset(row[0] for row in session.fetch(sql, {"ids": self._dialect.id_list(ids)}))
