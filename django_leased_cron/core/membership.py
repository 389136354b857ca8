"""Which processes count on a share of a database's tenants.

A process counts while it reports itself: seen within LEASE_TTL, and not on its way down. One that has just lost a lease
does not count until it reports itself again: a report is good for LEASE_TTL, and a dead process whose tenants were
rescued a second ago would look like the one with room for more.

What a process was given and did not take up it is not given again: it may not list that tenant, which no row says.

Not promised: that a process that counts is alive. What is given to a dead one is rescued like anything of a dead one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from django_leased_cron.core.lease import FREE, LeaseReading, SeenProcess

Members = Mapping[str, SeenProcess]
"""Holder id to the process that counts."""


class MembershipObserver:
    """What one process remembers of the readings of one database, to judge who counts."""

    def __init__(self, *, holder_id: str, lease_ttl_ms: int) -> None:
        self._holder_id = holder_id
        self._lease_ttl_ms = lease_ttl_ms
        self._holders: Mapping[str, str] = {}
        self._lost_at_ms: dict[str, int] = {}
        self._refused: defaultdict[str, set[str]] = defaultdict(set)

    def observe(self, reading: LeaseReading, processes: Sequence[SeenProcess]) -> Members:
        """Take in a reading and return who counts; the process itself always does, once it has reported itself."""
        holders = {tenant_key: row.holder_id for tenant_key, row in reading.leases.items()}
        for tenant_key, holder_id in self._holders.items():
            if holder_id != FREE and holders.get(tenant_key, holder_id) != holder_id:
                self.note_loss(holder_id, at_ms=reading.now_ms)
        self._holders = holders
        known = {process.holder_id for process in processes}
        self._lost_at_ms = {holder_id: at_ms for holder_id, at_ms in self._lost_at_ms.items() if holder_id in known}
        for holder_id in self._refused.keys() - known:
            del self._refused[holder_id]
        return {
            process.holder_id: replace(process, refused=frozenset(self._refused.get(process.holder_id, ())))
            for process in processes
            if self._counts(process, now_ms=reading.now_ms)
        }

    def note_loss(self, holder_id: str, *, at_ms: int) -> None:
        """Take in that a process lost a lease, which no two readings may have shown."""
        self._lost_at_ms[holder_id] = at_ms

    def note_refusal(self, holder_id: str, tenant_key: str) -> None:
        """Take in that a process was given a lease and did not take it up."""
        self._refused[holder_id].add(tenant_key)

    def _counts(self, process: SeenProcess, *, now_ms: int) -> bool:
        if process.draining:
            return False
        if process.holder_id == self._holder_id:
            return True
        lost_at_ms = self._lost_at_ms.get(process.holder_id, 0)
        return now_ms - process.last_seen_at_ms <= self._lease_ttl_ms and process.last_seen_at_ms > lost_at_ms
