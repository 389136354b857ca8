"""One tenant's place in this process: standby or holding, and what goes on between the two."""

from __future__ import annotations

import threading
from collections.abc import Callable

from django_leased_cron.core.adoption import EpochSightings
from django_leased_cron.core.clock import BootTime, Clock, later
from django_leased_cron.core.events import Emit, LoopFailed, TermEnded
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
from django_leased_cron.exceptions import StoreError
from django_leased_cron.supervision.dispatch_context import DispatchContext
from django_leased_cron.supervision.dispatcher import TermDispatcher
from django_leased_cron.supervision.outage import OutageWatch

_RETRY_S = 0.2


class TenantSeat:
    """Joins the lease machine of one tenant with the dispatcher of its present term.

    Keeper, standby and dispatch threads all tell it what they learned; the machine moves under one lock, and a
    dispatcher is stepped by one thread at a time.
    """

    def __init__(
        self, context: DispatchContext, *, tenant_key: str, alias: str, holder_id: str, wake: Callable[[], None]
    ) -> None:
        self.tenant_key = tenant_key
        self.alias = alias
        self.sightings: EpochSightings = context.sightings
        self._context = context
        self._holder_id = holder_id
        self._wake = wake
        self._clock: Clock = context.clock
        self._emit: Emit = context.emit
        self._lease_ttl_s = context.timing.lease_ttl_s
        self._lock = threading.Lock()
        self._state: State = Standby()
        self._dispatcher: TermDispatcher | None = None
        self._newest_epoch = 0
        self._give: Callable[[TermKey], bool] | None = None
        self._draining = False
        self._edits_announced = False
        self._turned_at = self._clock.boot_time()
        self._outage = OutageWatch(alias=alias, doing=f"scheduling tenant {tenant_key!r}", emit=self._emit)

    # What other threads ask and tell

    @property
    def term(self) -> TermKey | None:
        """The term this process believes in, if any."""
        with self._lock:
            return self._key(self._state.epoch) if isinstance(self._state, Holding) else None

    def has_turned_within(self, seconds: float) -> bool:
        """Whether the dispatch loop turned lately; a holder whose loop is stuck is not to be renewed."""
        return self._clock.boot_time() - self._turned_at <= seconds

    def won(self, epoch: int, asked_at: BootTime) -> None:
        self._turned()
        self._take(Won(epoch=epoch, asked_at=asked_at))

    def proved(self, epoch: int, asked_at: BootTime) -> None:
        self._take(Proved(epoch=epoch, asked_at=asked_at))

    def denied(self, epoch: int) -> None:
        self._take(Denied(epoch=epoch))

    def released(self, epoch: int, reason: EndReason = EndReason.RELEASED) -> None:
        """The lease was given back, or to a successor, after the dispatcher had stopped."""
        with self._lock:
            if not isinstance(self._state, Holding) or self._state.epoch != epoch:
                return  # the database said so first, to another thread
            self._state, self._dispatcher = Standby(), None
        self._emit(TermEnded(tenant_key=self.tenant_key, epoch=epoch, reason=reason))

    def may_take_up(self, epoch: int) -> bool:
        """Whether a row that names this process at that epoch is a term it has not had: one is not had twice (A2)."""
        return epoch > self._newest_epoch

    def offer(self, give: Callable[[TermKey], bool]) -> None:
        """Give the lease away with ``give`` between two batches, if by then all that was claimed is confirmed (I9)."""
        self._give = give
        self._wake()

    @property
    def is_offering(self) -> bool:
        return self._give is not None

    def edits_announced(self) -> None:
        """The database announced something: perhaps an edit of a job."""
        if self.term is not None:
            self._edits_announced = True
            self._wake()

    def drain(self) -> None:
        """Claim nothing more; steps only record what was published."""
        self._draining = True
        self._wake()

    @property
    def is_drained(self) -> bool:
        with self._lock:
            has_claimed_ahead = self._dispatcher is not None and self._dispatcher.has_claimed_ahead
        return self._draining and not has_claimed_ahead and self._context.confirmer.is_empty

    # What the dispatch thread does

    def step(self, publisher: Publisher) -> BootTime | None:
        """Do the next thing for this tenant; return when to come again, ``None``: when woken."""
        self._turned()
        self._take(TimePassed())
        with self._lock:
            dispatcher, state = self._dispatcher, self._state
        try:
            result = self._do(dispatcher, publisher)
        except StoreError as exc:
            self._outage.failed(exc)
            return later(self._clock.boot_time(), _RETRY_S)
        except Exception as exc:  # noqa: BLE001 - top of the loop: ours to mend, not a reason to leave a tenant alone
            self._emit(LoopFailed(doing=f"scheduling tenant {self.tenant_key!r}", error=exc))
            return later(self._clock.boot_time(), _RETRY_S)
        if dispatcher is not None and dispatcher.was_answered:
            self._outage.worked()
        if isinstance(result, TermLost):
            if isinstance(state, Holding):
                self.denied(state.epoch)
            return None
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
        if self._give is not None and not dispatcher.has_claimed_ahead and self._try_to_give(dispatcher, self._give):
            return None
        if self._edits_announced:
            self._edits_announced = False
            dispatcher.look_for_edits()
        return dispatcher.step(publisher)

    def _try_to_give(self, dispatcher: TermDispatcher, give: Callable[[TermKey], bool]) -> bool:
        """Hand over if nothing is in flight; else the offer lapses. Raises ``StoreError``: tried again."""
        is_given = dispatcher.come_to_rest() and give(dispatcher.term)
        if is_given:
            self.released(dispatcher.term.epoch, EndReason.HANDED_OVER)
        self._give = None
        return is_given

    def _turned(self) -> None:
        self._turned_at = self._clock.boot_time()

    def _take(self, event: Event) -> None:
        """Move the machine, and build or drop the dispatcher accordingly."""
        started = False
        ended: list[EndTerm] = []
        with self._lock:
            at = self._clock.boot_time()
            self._state, actions = step(self._state, event, at=at, lease_ttl_s=self._lease_ttl_s)
            for action in actions:
                match action:
                    case StartTerm(epoch=epoch):
                        self._newest_epoch, self._give = epoch, None
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
            self._wake()

    def _key(self, epoch: int) -> TermKey:
        return TermKey(tenant_key=self.tenant_key, holder_id=self._holder_id, epoch=epoch)
