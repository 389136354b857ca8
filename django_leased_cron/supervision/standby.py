"""Looking at all leases of one database, and bidding for those that may be taken."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from django_leased_cron.core.bidding import LeaseObserver, find_takeover
from django_leased_cron.core.clock import BootTime, Clock, later
from django_leased_cron.core.events import Emit, LeaseAcquired, LoopFailed, RescueWithheld
from django_leased_cron.core.lease import Acquired, LeaseReading, LeaseRow, LeaseStore, TakeoverReason, WakeUps
from django_leased_cron.core.timing import LeaseTiming
from django_leased_cron.exceptions import StoreError
from django_leased_cron.supervision.outage import OutageWatch
from django_leased_cron.supervision.seat import TenantSeat

_SOON_S = 0.05


class StandbyPoll:
    """One query a poll for all tenants of a database; a bid for each lease that the rules allow to take.

    Whatever it reads is also what this process has *seen*: epochs for rule A3, the database's own "no" to a term that
    it believes in, and a request to hand that over.
    """

    def __init__(
        self,
        store: LeaseStore,
        wake_ups: WakeUps,
        seats: Sequence[TenantSeat],
        *,
        holder_id: str,
        timing: LeaseTiming,
        is_broker_answering: Callable[[], bool],
        clock: Clock,
        emit: Emit,
    ) -> None:
        self._store = store
        self._wake_ups = wake_ups
        self._seats: Mapping[str, TenantSeat] = {seat.tenant_key: seat for seat in seats}
        self._holder_id = holder_id
        self._timing = timing
        self._is_broker_answering = is_broker_answering
        self._clock = clock
        self._emit = emit
        self._observer = LeaseObserver()
        self._outage = OutageWatch(alias=store.alias, doing="looking at leases", emit=emit)
        self._bids = OutageWatch(alias=store.alias, doing="bidding for leases", emit=emit)
        self._withheld: set[str] = set()
        self._rescue_not_before = BootTime(0.0)
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
            wait_s = self._timing.poll_interval_s
            try:
                wait_s = self.poll()
            except StoreError as exc:
                self._outage.failed(exc)
            except Exception as exc:  # noqa: BLE001 - top of the loop: a standby that died is no standby
                self._emit(LoopFailed(doing="looking at leases", error=exc))
            else:
                self._outage.worked()
            if self._wake_ups.wait(wait_s):
                for seat in self._seats.values():
                    seat.edits_announced()

    def poll(self) -> float:
        """Look once and bid; return the seconds until the next look; raises ``StoreError``."""
        reading = self._store.read(list(self._seats))
        at = self._clock.boot_time()
        self._observer.observe(reading, at=at)
        # Asked at most once a poll: an answer takes a while where the broker is away, and is the same for all tenants.
        is_broker_answering = cache(self._is_broker_answering)
        failures: list[StoreError] = []
        held = {seat.tenant_key: term.epoch for seat in self._seats.values() if (term := seat.term) is not None}
        for tenant_key, row in sorted(reading.leases.items()):
            if self._stopping.is_set():
                break
            seat = self._seats[tenant_key]
            seat.sightings.note(row.epoch, at=at)
            seat.database_answered(wrote=self._observer.unchanged_for_s(row, at=at) == 0)
            epoch = held.get(tenant_key)
            if epoch is not None and row.epoch > epoch:
                seat.denied(epoch)
            if row.epoch == epoch and row.hand_over_requested_at_ms is not None:
                seat.hand_over(row.epoch)
            if not seat.may_bid(at):
                continue
            reason = find_takeover(
                row,
                reading,
                holder_id=self._holder_id,
                held_epochs=held,
                at=at,
                timing=self._timing,
                observer=self._observer,
            )
            if reason is TakeoverReason.RESCUE and not self._may_rescue(tenant_key, is_broker_answering, at=at):
                continue
            self._withheld.discard(tenant_key)
            if reason is not None:
                try:
                    self._bid(seat, row, reason)
                except StoreError as exc:
                    # A row that a frozen holder keeps locked, say: the other tenants must not wait for it.
                    failures.append(exc)
        if not failures:
            self._bids.worked()
        for failure in failures:
            self._bids.failed(failure)
        return _SOON_S if self._expects_hand_over(reading, held) else self._timing.poll_interval_s

    def _expects_hand_over(self, reading: LeaseReading, held: Mapping[str, int]) -> bool:
        """Whether another holder was asked a moment ago: it takes a poll to notice, and ours is not to add a second."""
        return any(
            0 <= reading.now_ms - row.hand_over_requested_at_ms <= 1000 * self._timing.hand_over_rest_s
            for tenant_key, row in reading.leases.items()
            if row.hand_over_requested_at_ms is not None and tenant_key not in held
        )

    def _may_rescue(self, tenant_key: str, is_broker_answering: Callable[[], bool], *, at: BootTime) -> bool:
        """Return whether this process could do better: a broker that is down for all is nobody's reason to move.

        What was owed while it was down says nothing of the holder; that is given the time in which it would be back.
        """
        if is_broker_answering():
            return at >= self._rescue_not_before
        # From now, not from the reading: on a busy machine the question alone may take as long as the rest.
        self._rescue_not_before = later(self._clock.boot_time(), self._timing.rescue_rest_s)
        if tenant_key not in self._withheld:
            self._withheld.add(tenant_key)
            self._emit(RescueWithheld(tenant_key=tenant_key))
        return False

    def _bid(self, seat: TenantSeat, row: LeaseRow, reason: TakeoverReason) -> None:
        asked_at = self._clock.boot_time()
        outcome = self._store.try_acquire(row, holder_id=self._holder_id, reason=reason)
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
