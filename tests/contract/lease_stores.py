"""Lease stores on a real database whose clock stands where a test puts it."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from typing import Any, Final, TypeVar, cast

from django_leased_cron.core.lease import LeaseRow, LeaseStore, Renewal
from django_leased_cron.database import build_dialect
from django_leased_cron.database.dialect import Dialect
from django_leased_cron.database.session import SessionPool
from django_leased_cron.lease_store import build_lease_store
from django_leased_cron.models import SchedulerLease

NOW_MS: Final = 1_800_000_000_000
TTL_MS: Final = 30_000
RESCUE_MS: Final = 1_000

T = TypeVar("T")


class Stores:
    """Builds stores on one database, each with connections of its own, and closes them."""

    def __init__(self, alias: str, cleanup: ExitStack) -> None:
        self.alias = alias
        self._cleanup = cleanup
        self._dialect = build_dialect(alias)
        self._reader = self.build()

    def dialect(self, clock: int | str = NOW_MS) -> Dialect:
        """Return the vendor's dialect with another clock: a number of milliseconds, or any SQL expression."""
        return cast(Dialect, dataclasses.replace(cast(Any, self._dialect), now_ms=str(clock)))

    def pool(self, clock: int | str = NOW_MS) -> SessionPool:
        return self._cleanup.enter_context(closing(SessionPool(self.alias, self.dialect(clock))))

    def build(
        self, clock: int | str = NOW_MS, *, rescue_after_ms: int | None = RESCUE_MS, pool: SessionPool | None = None
    ) -> LeaseStore:
        return build_lease_store(pool or self.pool(clock), lease_ttl_ms=TTL_MS, rescue_after_ms=rescue_after_ms)

    def build_real(self) -> LeaseStore:
        """Return a store that reads the database's true clock."""
        return self.build(self._dialect.now_ms)

    def put(self, tenant_key: str = "acme", **columns: Any) -> LeaseRow:
        """Write a lease row as it stands, held by ``other`` unless said otherwise; return it as a store reads it."""
        held = {
            "holder_id": "other",
            "epoch": 7,
            "acquired_at_ms": NOW_MS - 60_000,
            "expires_at_ms": NOW_MS + 20_000,
            "progressed_at_ms": NOW_MS - 10_000,
        }
        SchedulerLease.objects.using(self.alias).update_or_create(tenant_key=tenant_key, defaults=held | columns)
        return self.row(tenant_key)

    def row(self, tenant_key: str = "acme") -> LeaseRow:
        return self._reader.read([tenant_key]).leases[tenant_key]


def renewal(*, renewed: Iterable[str] = (), lost: Iterable[str] = (), busy: Iterable[str] = ()) -> Renewal:
    """Return what a renewal is expected to say."""
    return Renewal(renewed=frozenset(renewed), lost=frozenset(lost), busy=frozenset(busy))


def run_at_once(calls: Sequence[Callable[[], T]]) -> list[T | BaseException]:
    """Run each call in a thread of its own, all started together; return what each returned or raised."""
    start = threading.Barrier(len(calls))
    outcomes: list[T | BaseException | None] = [None] * len(calls)

    def run(index: int) -> None:
        start.wait()
        try:
            outcomes[index] = calls[index]()
        except BaseException as exc:  # noqa: BLE001 - handed to the test, which judges it
            outcomes[index] = exc

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return cast("list[T | BaseException]", outcomes)
