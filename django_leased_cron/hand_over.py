"""Asking the holders of leases to hand over, and seeing who holds them then."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Final

from django_leased_cron.conf import get_settings
from django_leased_cron.core.lease import FREE, LeaseRow, LeaseStore
from django_leased_cron.database import build_dialect
from django_leased_cron.database.session import SessionPool
from django_leased_cron.lease_store import build_lease_store

_TRIES: Final = 3


@contextmanager
def open_leases(alias: str) -> Iterator[LeaseStore]:
    """Yield the leases of a database, on connections that end with the block."""
    timing = get_settings().timing
    pool = SessionPool(alias, build_dialect(alias))
    store = build_lease_store(pool, lease_ttl_ms=timing.lease_ttl_ms, rescue_after_ms=timing.rescue_after_ms)
    with closing(store):
        yield store


def request_hand_overs(leases: LeaseStore, tenant_keys: Collection[str]) -> Mapping[str, LeaseRow]:
    """Ask the holder of each lease; return the leases of those asked, as they were, by tenant key.

    A tenant whose lease nobody holds, or whose holder let it expire, is left out.

    Raises:
        StoreError: the database does not answer; some may have been asked.
    """
    asked: dict[str, LeaseRow] = {}
    for _ in range(_TRIES):  # one that changes hands between the look and the request is looked at again
        left = [tenant_key for tenant_key in tenant_keys if tenant_key not in asked]
        reading = leases.read(left)
        held = {key: row for key, row in reading.leases.items() if row.expires_at_ms > reading.now_ms}
        if not held:
            break
        asked |= {key: row for key, row in sorted(held.items()) if leases.request_hand_over(row)}
    return asked


class HandOvers:
    """Hand-overs of leases in one database, from the request to the next holder.

    Attributes:
        asked: the leases whose holders were asked, as they were, by tenant key.
        successors: who has taken them since.
    """

    def __init__(self, leases: LeaseStore, tenant_keys: Collection[str]) -> None:
        """Ask; raises ``StoreError``."""
        self._leases = leases
        self.asked = request_hand_overs(leases, tenant_keys)
        self.successors: dict[str, str] = {}

    def are_done(self) -> bool:
        """Look who holds by now; return whether all leases have been taken. Raises ``StoreError``."""
        waiting = [tenant_key for tenant_key in self.asked if tenant_key not in self.successors]
        for tenant_key, row in self._leases.read(waiting).leases.items() if waiting else ():
            if row.epoch > self.asked[tenant_key].epoch and row.holder_id != FREE:
                self.successors[tenant_key] = row.holder_id
        return len(self.successors) == len(self.asked)
