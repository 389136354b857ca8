"""Looking at all leases of one database, and bidding for those that may be taken."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from django_leased_cron.core.bidding import LeaseObserver, find_soon_takeable, find_takeover
from django_leased_cron.core.clock import BootTime, Clock, later
from django_leased_cron.core.events import Emit, LeaseAcquired, LeaseTakenUp, LoopFailed, RescueWithheld
from django_leased_cron.core.lease import Acquired, LeaseReading, LeaseRow, LeaseStore, TakeoverReason, WakeUps
from django_leased_cron.core.placement import is_first_choice, order_bids
from django_leased_cron.core.timing import LeaseTiming
from django_leased_cron.exceptions import StoreError
from django_leased_cron.supervision.outage import OutageWatch
from django_leased_cron.supervision.seat import TenantSeat
from django_leased_cron.supervision.shares import ShareGiver

_SHORTEST_WAIT_S = 0.01
"""Between two looks, whatever the database's clock does."""


class StandbyPoll:
    """One query a poll for all tenants of a database; a bid for each lease that the rules allow to take.

    Bids come first, and never wait for shares; then it gives away what another process should have. The first choice of
    a lease looks again at the very moment from which the lease may be taken, and so is there before the others are.

    Whatever it reads is also what this process has *seen*: epochs for rule A3, the database's own "no" to a term that
    it believes in, and terms that it was given.

    Attributes:
        wait_s: until the next look, unless something ends the wait.
    """

    def __init__(
        self,
        store: LeaseStore,
        wake_ups: WakeUps,
        seats: Sequence[TenantSeat],
        *,
        holder_id: str,
        shares: ShareGiver,
        timing: LeaseTiming,
        is_broker_answering: Callable[[], bool],
        clock: Clock,
        emit: Emit,
    ) -> None:
        self._store = store
        self._wake_ups = wake_ups
        self._seats: Mapping[str, TenantSeat] = {seat.tenant_key: seat for seat in seats}
        self._holder_id = holder_id
        self._shares = shares
        self._timing = timing
        self._is_broker_answering = is_broker_answering
        self._clock = clock
        self._emit = emit
        self._observer = LeaseObserver()
        self._outage = OutageWatch(alias=store.alias, doing="looking at leases", emit=emit)
        self._bids = OutageWatch(alias=store.alias, doing="bidding for leases", emit=emit)
        self._withheld: set[str] = set()
        self._rescue_not_before = BootTime(0.0)
        self.wait_s = timing.poll_interval_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"leased-cron-standby-{store.alias}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, timeout_s: float) -> None:
        """Bid no more."""
        self._stopping.set()
        self._wake_ups.wake()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.wait_s = self._timing.poll_interval_s
            try:
                self.poll()
            except StoreError as exc:
                self._outage.failed(exc)
            except Exception as exc:  # noqa: BLE001 - top of the loop: a standby that died is no standby
                self._emit(LoopFailed(doing="looking at leases", error=exc))
            else:
                self._outage.worked()
            if self._wake_ups.wait(self.wait_s):
                for seat in self._seats.values():
                    seat.edits_announced()

    def poll(self) -> None:
        """Look once, bid, and give; raises ``StoreError``."""
        reading = self._store.read(list(self._seats))
        at = self._clock.boot_time()
        self._observer.observe(reading, at=at)
        held = {seat.tenant_key: term.epoch for seat in self._seats.values() if (term := seat.term) is not None}
        reasons: dict[str, TakeoverReason] = {}
        given: dict[str, int] = {}
        for tenant_key, row in reading.leases.items():
            seat = self._seats[tenant_key]
            seat.sightings.note(row.epoch, at=at)
            epoch = held.get(tenant_key)
            # What became of an offer is for the seat to say, which may not have heard yet.
            if epoch is not None and row.epoch > epoch and not seat.is_offering:
                seat.denied(epoch)
            reason = find_takeover(
                row,
                reading,
                holder_id=self._holder_id,
                held_epochs=held,
                at=at,
                timing=self._timing,
                observer=self._observer,
            )
            if reason is not None:
                reasons[tenant_key] = reason
            elif row.holder_id == self._holder_id and seat.may_take_up(row.epoch):
                given[tenant_key] = row.epoch
        self._take_up(given)
        self._bid_for(reading, reasons, at=at)
        if not self._stopping.is_set():
            self._shares.look(reading, self._seats)
        self.wait_s = self._find_wait_s(reading, at=at)

    def decline(self) -> None:
        """On the way down: give back what was given to this process and not taken up; raises ``StoreError``."""
        for tenant_key, row in self._store.read(list(self._seats)).leases.items():
            if row.holder_id == self._holder_id and self._seats[tenant_key].may_take_up(row.epoch):
                self._store.release(tenant_key=tenant_key, holder_id=self._holder_id, epoch=row.epoch)

    def _take_up(self, epochs: Mapping[str, int]) -> None:
        """Begin terms that the database says are ours: a renewal proves them."""
        if not epochs:
            return
        asked_at = self._clock.boot_time()
        try:
            renewal = self._store.renew(holder_id=self._holder_id, epochs=epochs)
        except StoreError as exc:
            self._bids.failed(exc)
            return
        self._bids.worked()
        for tenant_key in sorted(renewal.renewed):
            self._emit(LeaseTakenUp(tenant_key=tenant_key, epoch=epochs[tenant_key]))
            self._seats[tenant_key].won(epochs[tenant_key], asked_at)

    def _bid_for(self, reading: LeaseReading, reasons: Mapping[str, TakeoverReason], *, at: BootTime) -> None:
        # Asked at most once a poll: an answer takes a while where the broker is away, and is the same for all tenants.
        is_broker_answering = cache(self._is_broker_answering)
        self._withheld &= reasons.keys()
        for tenant_key in order_bids(reasons, self._shares.members, holder_id=self._holder_id):
            if self._stopping.is_set():
                return
            reason = reasons[tenant_key]
            if reason is TakeoverReason.RESCUE and not self._may_rescue(tenant_key, is_broker_answering, at=at):
                continue
            self._withheld.discard(tenant_key)
            self._bid(self._seats[tenant_key], reading.leases[tenant_key], reason)

    def _find_wait_s(self, reading: LeaseReading, *, at: BootTime) -> float:
        """Return when to look again: at the next poll, or when a lease may be taken whose first choice this is."""
        soon = find_soon_takeable(
            reading, within_s=self._timing.poll_interval_s, timing=self._timing, observer=self._observer
        )
        waits_s = [
            wait_s
            for tenant_key, wait_s in soon.items()
            if reading.leases[tenant_key].holder_id != self._holder_id
            and is_first_choice(tenant_key, self._shares.members, holder_id=self._holder_id)
        ]
        if not waits_s:
            return self._timing.poll_interval_s
        return max(_SHORTEST_WAIT_S, min(waits_s) - (self._clock.boot_time() - at))

    def _may_rescue(self, tenant_key: str, is_broker_answering: Callable[[], bool], *, at: BootTime) -> bool:
        """Return whether this process could do better: a broker that is down for all is nobody's reason to move.

        What was owed while it was down says nothing of the holder; that is given the time in which it would be back.
        """
        if is_broker_answering():
            return at >= self._rescue_not_before
        self._rescue_not_before = later(at, self._timing.rescue_rest_s)
        if tenant_key not in self._withheld:
            self._withheld.add(tenant_key)
            self._emit(RescueWithheld(tenant_key=tenant_key))
        return False

    def _bid(self, seat: TenantSeat, row: LeaseRow, reason: TakeoverReason) -> None:
        asked_at = self._clock.boot_time()
        try:
            outcome = self._store.try_acquire(row, holder_id=self._holder_id, reason=reason)
        except StoreError as exc:
            # A row that a frozen holder keeps locked, say: the other tenants must not wait for it.
            self._bids.failed(exc)
            return
        self._bids.worked()
        if isinstance(outcome, Acquired):
            seat.sightings.note(outcome.epoch, at=self._clock.boot_time())
            self._emit(
                LeaseAcquired(
                    tenant_key=seat.tenant_key,
                    epoch=outcome.epoch,
                    reason=reason,
                    previous_holder_id=row.holder_id,
                )
            )
            seat.won(outcome.epoch, asked_at)
