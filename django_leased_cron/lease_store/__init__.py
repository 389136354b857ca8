"""Where the leases are: the row that decides, and what ends the wait for it.

``store.py`` holds what is the same on every database, one module per vendor what differs.
"""

from __future__ import annotations

from typing import Final

from django_leased_cron.core.lease import LeaseStore, WakeUps
from django_leased_cron.database.dialect import Dialect
from django_leased_cron.database.session import SessionPool
from django_leased_cron.lease_store.mysql import MySQLLeaseStore
from django_leased_cron.lease_store.poll_timer import PollTimer
from django_leased_cron.lease_store.postgres import PostgresLeaseStore, PostgresListener
from django_leased_cron.lease_store.store import SqlLeaseStore

_STORES: Final = {"postgresql": PostgresLeaseStore, "mysql": MySQLLeaseStore, "sqlite": SqlLeaseStore}


def build_lease_store(pool: SessionPool, *, lease_ttl_ms: int, rescue_after_ms: int | None) -> LeaseStore:
    """Return the store of the leases in the pool's database; it may be used by several threads at once."""
    store = _STORES[pool.dialect.vendor]
    return store(pool, lease_ttl_ms=lease_ttl_ms, rescue_after_ms=rescue_after_ms)


def build_wake_ups(alias: str, dialect: Dialect) -> WakeUps:
    """Return what ends a standby's wait: announcements where the database has them, else the timer alone."""
    return PostgresListener(alias, dialect) if dialect.vendor == "postgresql" else PollTimer()
