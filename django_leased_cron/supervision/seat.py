"""One tenant's place in this process: standby or holding, and what goes on between the two."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass

from django_leased_cron.core.adoption import EpochSightings
from django_leased_cron.core.clock import BootTime, Clock, later
from django_leased_cron.core.events import Emit, HandOverRequested, LoopFailed, TermEnded
from django_leased_cron.core.lease import LeaseStore
from django_leased_cron.core.lease_machine import (
    Denied,
    EndReason,
    EndTerm,
    Event,
    Holding,
    Proved,
    Standby,
    StartTerm,
    State,
    TimePassed,
    Won,
    step,
)
from django_leased_cron.core.outbox import TermKey, TermLost
from django_leased_cron.core.publication import Publisher
from django_leased_cron.exceptions import DatabaseUnavailableError, StoreError
from django_leased_cron.supervision.dispatch_context import DispatchContext
from django_leased_cron.supervision.dispatcher import TermDispatcher
from django_leased_cron.supervision.outage import OutageWatch

_RETRY_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class _HandOver:
    """A term is to be handed over; from ``unrecorded_until`` on also with outcomes that are not recorded."""

    epoch: int
    unrecorded_until: BootTime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """A term's lease that another process is to have, and the act that makes it the holder."""

    epoch: int
    give: Callable[[TermKey], bool]


class TenantSeat:
    """Joins the lease machine of one tenant with the dispatcher of its present term.

    Keeper, standby and dispatch threads all tell it what they learned; the machine moves under one lock, and a
    dispatcher is stepped by one thread at a time.
    """

    def __init__(
        self,
        context: DispatchContext,
        *,
        leases: LeaseStore,
        tenant_key: str,
        holder_id: str,
        wake: Callable[[], None],
        wake_by: Callable[[BootTime], None],
    ) -> None:
        """Begin as standby.

        Args:
            wake: asks for a step now.
            wake_by: asks for a step by then, or as soon as nobody else has anything to do.
        """
        self.tenant_key = tenant_key
        self.sightings: EpochSightings = context.sightings
        self._context = context
        self._leases = leases
        self._holder_id = holder_id
        self._wake = wake
        self._wake_by = wake_by
        self._clock: Clock = context.clock
        self._emit: Emit = context.emit
        self._timing = context.timing
        self._lock = threading.Lock()
        self._state: State = Standby()
        self._dispatcher: TermDispatcher | None = None
        self._newest_epoch = 0
        self._draining = False
        self._hand_over: _HandOver | None = None
        self._offer: _Offer | None = None
        self._bids_from = BootTime(0.0)
        self._edits_announced = False
        self._is_woken = False
        self._turns_by = BootTime(math.inf)
        self._only_a_write_proves = False
        self._outage = OutageWatch(alias=leases.alias, doing=f"scheduling tenant {tenant_key!r}", emit=self._emit)

    # What other threads ask and tell

    @property
    def term(self) -> TermKey | None:
        """The term this process believes in, if any."""
        with self._lock:
            return self._key(self._state.epoch) if isinstance(self._state, Holding) else None

    def is_stuck(self, *, for_s: float) -> bool:
        """Whether the dispatch loop should have turned so long ago; a holder whose loop is stuck is not renewed."""
        return self._clock.boot_time() - self._turns_by > for_s

    def won(self, epoch: int, asked_at: BootTime, *, owed_at: BootTime | None = None) -> None:
        """The lease is ours; with ``owed_at``, nothing is owed before, and the first step may wait so long."""
        self._take(Won(epoch=epoch, asked_at=asked_at), wake_by=owed_at)

    def proved(self, epoch: int, asked_at: BootTime) -> None:
        self._take(Proved(epoch=epoch, asked_at=asked_at))

    def denied(self, epoch: int) -> None:
        self._take(Denied(epoch=epoch))

    def release(self, term: TermKey) -> bool:
        """Give the term's lease back, after its dispatcher has stopped; return whether it still was the term's.

        Raises:
            StoreError: it may not have been given back.
        """
        if not self._leases.release(tenant_key=term.tenant_key, holder_id=term.holder_id, epoch=term.epoch):
            self.denied(term.epoch)
            return False
        self._end(term.epoch, EndReason.RELEASED)
        return True

    def hand_over(self, epoch: int) -> None:
        """Claim nothing more in this term; release its lease once what it published is recorded, and let others bid."""
        if self._hand_over is not None and self._hand_over.epoch == epoch:
            return
        at = self._clock.boot_time()
        self._hand_over = _HandOver(epoch=epoch, unrecorded_until=later(at, self._timing.publish_timeout_s))
        self._emit(HandOverRequested(tenant_key=self.tenant_key, epoch=epoch))
        self._wake_up()

    def may_bid(self, at: BootTime) -> bool:
        """Whether a lease that is free is not to be left to the others, after a hand-over."""
        return at >= self._bids_from

    def may_take_up(self, epoch: int) -> bool:
        """Whether a row that names this process at that epoch is a term it has not had: one is not had twice (A2)."""
        return epoch > self._newest_epoch

    def offer(self, epoch: int, give: Callable[[TermKey], bool]) -> None:
        """Give that term's lease away with ``give`` between two batches, if all that it claimed is confirmed (I9)."""
        self._offer = _Offer(epoch=epoch, give=give)
        self._wake_up()

    def is_offering(self, epoch: int) -> bool:
        """Whether that term's lease is about to be given away, or just was."""
        offer = self._offer
        return offer is not None and offer.epoch == epoch

    def edits_announced(self) -> None:
        """The database announced something: perhaps an edit of a job."""
        if self.term is not None:
            self._edits_announced = True
            self._wake_up()

    def clock_stepped(self) -> None:
        """The database's clock is not where it was thought to be, or is known again: what was waited for may be due."""
        if self.term is not None:
            self._wake_up()

    def database_answered(self, *, wrote: bool) -> None:
        """The standby had an answer, and saw whether anybody wrote: an outage that ended a term may be over by that."""
        if self.term is None and self._context.confirmer.is_empty:
            self._answered(wrote=wrote)

    def drain(self) -> None:
        """Claim nothing more; steps only record what was published."""
        self._draining = True
        self._wake_up()

    @property
    def is_leaving(self) -> bool:
        """Whether this seat is to be given up: it bids no more."""
        return self._draining

    @property
    def is_drained(self) -> bool:
        with self._lock:
            has_claimed_ahead = self._dispatcher is not None and self._dispatcher.has_claimed_ahead
        return self._draining and not has_claimed_ahead and self._context.confirmer.is_empty

    # What the dispatch thread does

    def step(self, publisher: Publisher) -> BootTime | None:
        """Do the next thing for this tenant; return when to come again, ``None``: when woken."""
        with self._lock:
            self._is_woken = False
            self._turns_by = self._clock.boot_time()
        again_at = self._step(publisher)
        with self._lock:
            if not self._is_woken:
                # Until then there is nothing to turn for: a loop at rest is not stuck.
                self._turns_by = BootTime(math.inf) if again_at is None else again_at
        return again_at

    def _step(self, publisher: Publisher) -> BootTime | None:
        self._take(TimePassed())
        with self._lock:
            dispatcher, state = self._dispatcher, self._state
        try:
            result = self._do(dispatcher, publisher)
        except StoreError as exc:
            self._outage.failed(exc)
            self._only_a_write_proves = type(exc) is DatabaseUnavailableError
            return later(self._clock.boot_time(), _RETRY_S)
        except Exception as exc:  # noqa: BLE001 - top of the loop: ours to mend, not a reason to leave a tenant alone
            self._emit(LoopFailed(doing=f"scheduling tenant {self.tenant_key!r}", error=exc))
            return later(self._clock.boot_time(), _RETRY_S)
        if dispatcher is not None and dispatcher.was_answered:
            self._answered(wrote=dispatcher.has_written)
        if isinstance(result, TermLost):
            if isinstance(state, Holding):
                self.denied(state.epoch)
            # What the term published is still to be recorded, and nobody else would ask for a step.
            return None if self._context.confirmer.is_empty else self._clock.boot_time()
        return result

    def _do(self, dispatcher: TermDispatcher | None, publisher: Publisher) -> BootTime | TermLost | None:
        if dispatcher is None:
            # What an earlier term published is still its to confirm (P2); no lease is needed for that.
            if not self._context.confirmer.is_empty:
                self._context.confirmer.flush(predecessors_adoptable_in_ms=None)
            return self._context.confirmer.retry_at
        if self._draining:
            dispatcher.finish(publisher)
            return self._context.confirmer.retry_at
        if self._hand_over is not None and self._hand_over.epoch == dispatcher.epoch:
            dispatcher.finish(publisher)
            return self._finish_hand_over(self._hand_over)
        if self._try_to_give(dispatcher):
            return None
        if self._edits_announced:
            self._edits_announced = False
            dispatcher.look_for_edits()
        return dispatcher.step(publisher)

    def _try_to_give(self, dispatcher: TermDispatcher) -> bool:
        """Hand over as offered, if nothing is in flight; return whether it was.

        Else the offer lapses, and with an error too: the tenant's work does not wait for it. A lease that was given
        although the reply was lost is refused to the next claim.
        """
        offer = self._offer
        if offer is None or offer.epoch != dispatcher.epoch or dispatcher.has_claimed_ahead:
            return False
        try:
            is_given = dispatcher.come_to_rest() and offer.give(self._key(offer.epoch))
            if is_given:
                # In this order: whoever sees that nothing is offered any more also sees what came of it.
                self._end(offer.epoch, EndReason.HANDED_OVER)
        finally:
            self._offer = None
        return is_given

    def _finish_hand_over(self, hand_over: _HandOver) -> BootTime | None:
        """Release, unless something is still to be recorded; return when to come again.

        An outcome whose row somebody has locked is waited for no longer than a successor would before it adopts it:
        the process lives on and records it later (P2), and the tenant must not stand still for one row.
        """
        confirmer, at = self._context.confirmer, self._clock.boot_time()
        if confirmer.is_empty or at >= hand_over.unrecorded_until:
            # Before the others can know: the look that finds the lease free may come at any moment.
            self._bids_from = later(at, self._timing.hand_over_rest_s)
            self.release(self._key(hand_over.epoch))
        return confirmer.retry_at

    def _answered(self, *, wrote: bool) -> None:
        if wrote or not self._only_a_write_proves:
            self._outage.worked()

    def _turned(self) -> None:
        self._turns_by = self._clock.boot_time()

    def _wake_up(self, *, by: BootTime | None = None) -> None:
        with self._lock:
            self._is_woken = True
            self._turns_by = self._clock.boot_time() if by is None else by
        if by is None:
            self._wake()
        else:
            self._wake_by(by)

    def _take(self, event: Event, *, wake_by: BootTime | None = None) -> None:
        """Move the machine, and build or drop the dispatcher accordingly."""
        started = False
        ended: list[EndTerm] = []
        with self._lock:
            at = self._clock.boot_time()
            self._state, actions = step(self._state, event, at=at, lease_ttl_s=self._timing.lease_ttl_s)
            for action in actions:
                match action:
                    case StartTerm(epoch=epoch):
                        self._newest_epoch = epoch
                        self._dispatcher = TermDispatcher(
                            self._context, term=self._key(epoch), proved=self.proved, turned=self._turned
                        )
                        started = True
                    case EndTerm():
                        self._dispatcher = None
                        ended.append(action)
        for action in ended:
            self._emit(TermEnded(tenant_key=self.tenant_key, epoch=action.epoch, reason=action.reason))
        if started:
            self._wake_up(by=wake_by)

    def _end(self, epoch: int, reason: EndReason) -> None:
        """The lease was given back, or to a successor, by an act of our own."""
        with self._lock:
            if not isinstance(self._state, Holding) or self._state.epoch != epoch:
                return  # the database said so first, to another thread
            self._state, self._dispatcher = Standby(), None
        self._emit(TermEnded(tenant_key=self.tenant_key, epoch=epoch, reason=reason))

    def _key(self, epoch: int) -> TermKey:
        return TermKey(tenant_key=self.tenant_key, holder_id=self._holder_id, epoch=epoch)
