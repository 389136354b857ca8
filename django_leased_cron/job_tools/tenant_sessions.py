"""Connections of our own to a tenant's database, for one command: with deadlines, closed at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django_leased_cron.core.database_clock import is_plausible
from django_leased_cron.database import build_dialect
from django_leased_cron.database.session import Session, SessionPool
from django_leased_cron.exceptions import DatabaseClockError
from django_leased_cron.tenants import Tenant


@contextmanager
def open_sessions(tenant: Tenant) -> Iterator[SessionPool]:
    """Yield sessions that end with the block."""
    pool = SessionPool(tenant.alias, build_dialect(tenant.alias)).in_schema(tenant.schema)
    try:
        yield pool
    finally:
        pool.close()


def read_clock(session: Session) -> int:
    """Return what the database's clock reads, inside a transaction.

    Raises:
        DatabaseClockError: it cannot be a time of day.
    """
    ((now_ms,),) = session.fetch(f"SELECT {session.dialect.now_ms}")
    if not is_plausible(now_ms):
        raise DatabaseClockError(session.alias, now_ms)
    return now_ms
