"""Looking at all leases of one database, and bidding for those that may be taken."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from typing import Final

from django_leased_cron.core.bidding import LeaseObserver, find_soon_takeable, find_takeover
from django_leased_cron.core.clock import BootTime, Clock, later
from django_leased_cron.core.database_clock import DatabaseClockEstimate
from django_leased_cron.core.events import Emit, LeaseAcquired, LeaseTakenUp, LoopFailed, RescueWithheld
from django_leased_cron.core.lease import Acquired, Bid, LeaseReading, LeaseRow, LeaseStore, TakeoverReason, WakeUps
from django_leased_cron.core.placement import is_first_choice, order_bids
from django_leased_cron.core.timing import LeaseTiming
from django_leased_cron.exceptions import StoreError
from django_leased_cron.supervision.outage import OutageWatch
from django_leased_cron.supervision.seat import TenantSeat
from django_leased_cron.supervision.seats import Seats
from django_leased_cron.supervision.shares import ShareGiver

_FEW: Final = 20
"""Up to this many leases are read whole at every poll, and bid for one by one: each bid waits for its row's lock."""
_AT_ONCE: Final = 1000

_SOON_S = 0.05
_SHORTEST_WAIT_S = 0.01
"""Between two looks, whatever the database's clock does."""


class StandbyPoll:
    """One query a poll for all tenants of a database; a bid for each lease that the rules allow to take.

    Of many tenants, most polls read only what there is a reason to look at, and many bids are one statement.

    Bids come first, and never wait for shares; then it gives away what another process should have. The first choice of
    a lease looks again at the very moment from which the lease may be taken, and so is there before the others are.

    Whatever it reads is also what this process has *seen*: epochs for rule A3, the database's own "no" to a term that
    it believes in, a request to hand that over, and terms that it was given.
    """

    def __init__(
        self,
        store: LeaseStore,
        wake_ups: WakeUps,
        seats: Seats,
        *,
        holder_id: str,
        shares: ShareGiver,
        timing: LeaseTiming,
        is_broker_answering: Callable[[], bool],
        clock: Clock,
        emit: Emit,
        estimate: DatabaseClockEstimate | None = None,
        find_edited: Callable[[], Collection[str]] | None = None,
    ) -> None:
        """Prepare a loop.

        Args:
            shares: told of each whole reading; says whose a lease should be.
            is_broker_answering: asked before a rescue.
            estimate: takes in what the readings say of the database's clock, for the seats that use it.
            find_edited: returns the keys of tenants with edits to look at; ``None``: each tenant looks for itself.
        """
        self._store = store
        self._wake_ups = wake_ups
        self._seats = seats
        self._estimate = estimate
        self._find_edited = find_edited
        self._holder_id = holder_id
        self._shares = shares
        self._timing = timing
        self._is_broker_answering = is_broker_answering
        self._clock = clock
        self._emit = emit
        self._observer = LeaseObserver()
        self._outage = OutageWatch(alias=store.alias, doing="looking at leases", emit=emit)
        self._bids = OutageWatch(alias=store.alias, doing="bidding for leases", emit=emit)
        self._whole_reading_at = BootTime(0.0)
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
            if self._wake_ups.wait(wait_s) and self._find_edited is None:
                for seat in self._seats:
                    seat.edits_announced()

    def poll(self) -> float:
        """Look once, bid, and give; return the seconds until the next look; raises ``StoreError``."""
        seats = self._seats.by_key
        sent_at = self._clock.boot_time()
        reading = self._read(seats)
        at = self._clock.boot_time()
        self._note_clock(reading.now_ms, sent_at=sent_at, received_at=at)
        self._observer.observe(reading, at=at)
        held = {seat.tenant_key: term.epoch for seat in seats.values() if (term := seat.term) is not None}
        reasons: dict[str, TakeoverReason] = {}
        given: dict[str, LeaseRow] = {}
        unwanted: list[LeaseRow] = []
        for tenant_key, row in sorted(reading.leases.items()):
            seat = seats.get(tenant_key)
            if seat is None:
                if row.holder_id == self._holder_id:
                    unwanted.append(row)
                continue
            seat.sightings.note(row.epoch, at=at)
            seat.database_answered(wrote=self._observer.unchanged_for_s(row, at=at) == 0)
            epoch = held.get(tenant_key)
            # What became of an offer is for the seat to say, which may not have heard yet.
            if epoch is not None and row.epoch > epoch and not seat.is_offering(epoch):
                seat.denied(epoch)
            if row.epoch == epoch and row.hand_over_requested_at_ms is not None:
                seat.hand_over(row.epoch)
            is_ours = row.holder_id == self._holder_id and seat.may_take_up(row.epoch)
            if seat.is_leaving:
                unwanted += [row] * is_ours
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
            if reason is None and is_ours:
                given[tenant_key] = row
            elif reason is not None and seat.may_bid(at):
                reasons[tenant_key] = reason
        acts = [partial(self._decline, row.tenant_key, row.epoch) for row in unwanted]
        acts += [partial(self._take_up, given, reading, at=at)] if given else []
        acts += [partial(self._bid, bids, reading, at=at) for bids in self._find_bids(reading, reasons, at=at)]
        self._do(acts)
        if self._find_edited is not None:
            self._announce_edits(self._find_edited())
        if reading.progress is None and not self._stopping.is_set():
            self._shares.look(reading, seats)
        return self._find_wait_s(reading, held, seats, at=at)

    def decline(self) -> None:
        """On the way down: give back what was given to this process and not taken up; raises ``StoreError``."""
        seats = self._seats.by_key
        for tenant_key, row in self._store.read(list(seats)).leases.items():
            if row.holder_id == self._holder_id and seats[tenant_key].may_take_up(row.epoch):
                self._decline(tenant_key, row.epoch)

    def _decline(self, tenant_key: str, epoch: int) -> None:
        """Give back a lease in a term that no seat of this process ever had: the tenant is leaving, or has left."""
        self._store.release(tenant_key=tenant_key, holder_id=self._holder_id, epoch=epoch)

    def _find_wait_s(
        self, reading: LeaseReading, held: Mapping[str, int], seats: Mapping[str, TenantSeat], *, at: BootTime
    ) -> float:
        """Return when to look again: at the next poll, or sooner where something is expected before."""
        wait_s = _SOON_S if self._expects_hand_over(reading, held) else self._timing.poll_interval_s
        soon = find_soon_takeable(
            reading, within_s=self._timing.poll_interval_s, timing=self._timing, observer=self._observer
        )
        takeable_in_s = [
            in_s
            for tenant_key, in_s in soon.items()
            if tenant_key in seats
            and reading.leases[tenant_key].holder_id != self._holder_id
            and is_first_choice(tenant_key, self._shares.members, holder_id=self._holder_id)
        ]
        if not takeable_in_s:
            return wait_s
        return min(wait_s, max(_SHORTEST_WAIT_S, min(takeable_in_s) - (self._clock.boot_time() - at)))

    def _expects_hand_over(self, reading: LeaseReading, held: Mapping[str, int]) -> bool:
        """Whether another holder was asked a moment ago: it takes a poll to notice, and ours is not to add a second."""
        return any(
            0 <= reading.now_ms - row.hand_over_requested_at_ms <= 1000 * self._timing.hand_over_rest_s
            for tenant_key, row in reading.leases.items()
            if row.hand_over_requested_at_ms is not None and tenant_key not in held
        )

    def _read(self, seats: Mapping[str, TenantSeat]) -> LeaseReading:
        at = self._clock.boot_time()
        if len(seats) > _FEW and at < self._whole_reading_at and not self._shares.is_giving:
            return self._store.read_notable(within_ms=round(self._timing.poll_interval_s * 1000))
        reading = self._store.read(list(seats))
        self._whole_reading_at = later(at, self._timing.heartbeat_s)
        return reading

    def _note_clock(self, now_ms: int, *, sent_at: BootTime, received_at: BootTime) -> None:
        """Read the clock for seats at rest, which wait for a time of it: where it has stepped, they look again."""
        if self._estimate is None:
            return
        was_trusted = self._estimate.is_trusted
        self._estimate.note(now_ms, sent_at=sent_at, received_at=received_at)
        if was_trusted != self._estimate.is_trusted:
            for seat in self._seats:
                seat.clock_stepped()

    def _announce_edits(self, tenant_keys: Collection[str]) -> None:
        for tenant_key in tenant_keys:
            seat = self._seats.by_key.get(tenant_key)
            if seat is not None:
                seat.edits_announced()

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

    def _find_bids(
        self, reading: LeaseReading, reasons: Mapping[str, TakeoverReason], *, at: BootTime
    ) -> Sequence[Sequence[Bid]]:
        """Return what to bid for, in the statements and the order in which to: own first choices come first.

        Of many, those whose work is owed first are to begin first.
        """
        # Asked at most once a poll: an answer takes a while where the broker is away, and is the same for all tenants.
        is_broker_answering = cache(self._is_broker_answering)
        self._withheld &= reasons.keys()
        bids: dict[str, Bid] = {}
        for tenant_key, reason in reasons.items():
            if reason is TakeoverReason.RESCUE and not self._may_rescue(tenant_key, is_broker_answering, at=at):
                continue
            self._withheld.discard(tenant_key)
            bids[tenant_key] = Bid(row=reading.leases[tenant_key], reason=reason)
        if len(bids) <= _FEW:
            return [[bids[key]] for key in order_bids(bids, self._shares.members, holder_id=self._holder_id)]
        own: list[Bid] = []
        others: list[Bid] = []
        for bid in sorted(bids.values(), key=lambda bid: _owed_since(bid.row)):
            is_own = is_first_choice(bid.row.tenant_key, self._shares.members, holder_id=self._holder_id)
            (own if is_own else others).append(bid)
        return [some[first : first + _AT_ONCE] for some in (own, others) for first in range(0, len(some), _AT_ONCE)]

    def _do(self, acts: Sequence[Callable[[], None]]) -> None:
        """Do one after the other; one that fails keeps none of the others waiting."""
        failures: list[StoreError] = []
        for act in acts:
            if self._stopping.is_set():
                return
            try:
                act()
            except StoreError as exc:
                # A row that a frozen holder keeps locked, say: the other tenants must not wait for it.
                failures.append(exc)
        if not failures:
            self._bids.worked()
        for failure in failures:
            self._bids.failed(failure)

    def _take_up(self, given: Mapping[str, LeaseRow], reading: LeaseReading, *, at: BootTime) -> None:
        """Begin terms that the database says are ours: a renewal proves them."""
        asked_at = self._clock.boot_time()
        renewal = self._store.renew(holder_id=self._holder_id, epochs={key: row.epoch for key, row in given.items()})
        for tenant_key in sorted(renewal.renewed):
            row = given[tenant_key]
            self._emit(LeaseTakenUp(tenant_key=tenant_key, epoch=row.epoch))
            self._begin(row, row.epoch, asked_at, reading, at=at, is_alone=len(given) == 1)

    def _bid(self, bids: Sequence[Bid], reading: LeaseReading, *, at: BootTime) -> None:
        asked_at = self._clock.boot_time()
        acquired = self._acquire(bids)
        by_key = {bid.row.tenant_key: bid for bid in bids}
        for outcome in acquired:
            bid = by_key[outcome.tenant_key]
            self._emit(
                LeaseAcquired(
                    tenant_key=outcome.tenant_key,
                    epoch=outcome.epoch,
                    reason=bid.reason,
                    previous_holder_id=bid.row.holder_id,
                )
            )
            self._begin(bid.row, outcome.epoch, asked_at, reading, at=at, is_alone=len(bids) == 1)

    def _begin(
        self, row: LeaseRow, epoch: int, asked_at: BootTime, reading: LeaseReading, *, at: BootTime, is_alone: bool
    ) -> None:
        """Of many, only what is owed is hurried; one alone has nobody to wait for."""
        seat = self._seats.by_key.get(row.tenant_key)
        if seat is None:
            self._decline(row.tenant_key, epoch)
            return
        seat.sightings.note(epoch, at=self._clock.boot_time())
        owed_in_s = (_owed_since(row) - reading.now_ms) / 1000
        owed_at = None if is_alone or owed_in_s <= 0 else later(at, owed_in_s)
        seat.won(epoch, asked_at, owed_at=owed_at)

    def _acquire(self, bids: Sequence[Bid]) -> Sequence[Acquired]:
        if len(bids) > 1:
            return self._store.try_acquire_many(bids, holder_id=self._holder_id)
        (bid,) = bids
        outcome = self._store.try_acquire(bid.row, holder_id=self._holder_id, reason=bid.reason)
        return [outcome] if isinstance(outcome, Acquired) else []


def _owed_since(row: LeaseRow) -> float:
    """Return when a tenant's holder has something to answer for, by the database's clock; infinity: it never has."""
    return math.inf if row.owed_since_ms is None else row.owed_since_ms
