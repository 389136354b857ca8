"""A scheduler process without its work: the real rules of bidding, shares and trust over an in-memory lease store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from django_leased_cron.core.bidding import LeaseObserver, find_soon_takeable, find_takeover
from django_leased_cron.core.clock import BootTime, later
from django_leased_cron.core.lease import Acquired, LeaseReading, ProcessReport
from django_leased_cron.core.membership import Members, MembershipObserver
from django_leased_cron.core.placement import DatabaseView, Move, is_first_choice, order_bids
from django_leased_cron.core.timing import LeaseTiming
from django_leased_cron.supervision.shares import FairShare
from django_leased_cron.testing import FakeClock, InMemoryLeaseStore

TIMING: Final = LeaseTiming(lease_ttl_s=12, heartbeat_s=4, poll_interval_s=1, rescue_after_s=1, publish_timeout_s=3)


class SimulatedProcess:
    """What a standby, a keeper and the seats of one process do, one act at a time.

    Attributes:
        terms: tenant key to the epoch that it believes to hold.
        is_reaching: it runs, and reaches the database; frozen and cut off look the same from there.
        is_alive: it is not gone for good.
    """

    def __init__(
        self,
        holder_id: str,
        store: InMemoryLeaseStore,
        clock: FakeClock,
        *,
        tenant_keys: list[str],
        begun: Callable[[str], None],
    ) -> None:
        self.holder_id = holder_id
        self.terms: dict[str, int] = {}
        self.is_reaching = self.is_alive = True
        self._store = store
        self._clock = clock
        self._tenant_keys = tenant_keys
        self._begun = begun
        self._newest_epochs: dict[str, int] = {}
        self._trusted_until: dict[str, BootTime] = {}
        self._observer = LeaseObserver()
        self._membership = MembershipObserver(holder_id=holder_id, lease_ttl_ms=TIMING.lease_ttl_ms)
        self._members: Members = {}
        self._shares = FairShare(
            holder_id=holder_id, lease_ttl_ms=TIMING.lease_ttl_ms, count_tenants=lambda: len(tenant_keys)
        )
        self._offered_epochs: dict[str, int] = {}
        self._reading = store.read([])

    def report(self, *, draining: bool = False) -> None:
        self._store.report_process(
            ProcessReport(holder_id=self.holder_id, host="h", pid=1, version="1", draining=draining, tenants=[])
        )

    def beat(self) -> None:
        """Do what the keeper does at each heartbeat."""
        self.end_untrusted_terms()
        renewal = self._store.renew(holder_id=self.holder_id, epochs=self.terms)
        for tenant_key in renewal.renewed:
            self._trusted_until[tenant_key] = later(self._clock.boot_time(), TIMING.lease_ttl_s)
        for tenant_key in renewal.lost:
            del self.terms[tenant_key]
        self.report()

    def end_untrusted_terms(self) -> None:
        at = self._clock.boot_time()
        self.terms = {key: epoch for key, epoch in self.terms.items() if self._trusted_until[key] > at}

    def poll(self) -> Iterator[None]:
        """Do what the standby does at each look; between two bids others may act."""
        self.end_untrusted_terms()
        self._reading = reading = self._store.read(self._tenant_keys)
        at = self._clock.boot_time()
        self._observer.observe(reading, at=at)
        given: dict[str, int] = {}
        reasons = {}
        for tenant_key, row in reading.leases.items():
            if self.terms.get(tenant_key, row.epoch) < row.epoch:
                del self.terms[tenant_key]
            reason = find_takeover(
                row,
                reading,
                holder_id=self.holder_id,
                held_epochs=self.terms,
                at=at,
                timing=TIMING,
                observer=self._observer,
            )
            if reason is not None:
                reasons[tenant_key] = reason
            elif row.holder_id == self.holder_id and row.epoch > self._newest_epochs.get(tenant_key, 0):
                given[tenant_key] = row.epoch
        for tenant_key in self._store.renew(holder_id=self.holder_id, epochs=given).renewed:
            self._begin(tenant_key, given[tenant_key])
        for tenant_key in order_bids(reasons, self._members, holder_id=self.holder_id):
            yield
            if not self.is_reaching:
                return
            outcome = self._store.try_acquire(
                reading.leases[tenant_key], holder_id=self.holder_id, reason=reasons[tenant_key]
            )
            if isinstance(outcome, Acquired):
                self._begin(tenant_key, outcome.epoch)
        self._members = self._membership.observe(reading, self._store.read_processes())

    def find_wait_s(self) -> float:
        """Return when it looks again."""
        poll_s = TIMING.poll_interval_s
        soon = find_soon_takeable(self._reading, within_s=poll_s, timing=TIMING, observer=self._observer)
        waits_s = [
            wait_s
            for tenant_key, wait_s in soon.items()
            if self._reading.leases[tenant_key].holder_id != self.holder_id
            and is_first_choice(tenant_key, self._members, holder_id=self.holder_id)
        ]
        return min(waits_s, default=poll_s)

    def choose_moves(self) -> list[Move]:
        """Return what it gives away now."""
        reading = self._reading
        settled = [key for key, epoch in self._offered_epochs.items() if self._is_settled(reading, key, epoch)]
        for tenant_key in settled:
            del self._offered_epochs[tenant_key]
        view = DatabaseView(now_ms=reading.now_ms, leases=reading.leases, members=self._members)
        moves = list(self._shares.choose(self._store.alias, view, settled=settled))
        self._offered_epochs |= {move.tenant_key: reading.leases[move.tenant_key].epoch for move in moves}
        return moves

    def give(self, move: Move) -> bool:
        """Hand over; return whether it did."""
        epoch = self.terms.pop(move.tenant_key, None)
        if epoch is None:
            return False
        given = self._store.hand_over(
            tenant_key=move.tenant_key, holder_id=self.holder_id, epoch=epoch, successor_id=move.successor_id
        )
        if not given:
            self.terms[move.tenant_key] = epoch
        self._offered_epochs[move.tenant_key] = epoch if given else epoch - 1
        return given

    def leave(self) -> Mapping[str, int]:
        """Begin the way down: say so, and return the terms to release."""
        self.report(draining=True)
        return dict(self.terms)

    def release(self, tenant_key: str, epoch: int) -> None:
        self.terms.pop(tenant_key, None)
        self._store.release(tenant_key=tenant_key, holder_id=self.holder_id, epoch=epoch)

    def decline(self) -> None:
        """End the way down: give back what was given meanwhile."""
        for tenant_key, row in self._store.read(self._tenant_keys).leases.items():
            if row.holder_id == self.holder_id:
                self._store.release(tenant_key=tenant_key, holder_id=self.holder_id, epoch=row.epoch)
        self._store.forget_process(holder_id=self.holder_id)

    def _is_settled(self, reading: LeaseReading, tenant_key: str, epoch: int) -> bool:
        return reading.leases[tenant_key].epoch > epoch

    def _begin(self, tenant_key: str, epoch: int) -> None:
        self.terms[tenant_key] = self._newest_epochs[tenant_key] = epoch
        self._trusted_until[tenant_key] = later(self._clock.boot_time(), TIMING.lease_ttl_s)
        self._begun(tenant_key)
