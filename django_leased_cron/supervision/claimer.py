"""Deciding what one term claims next, and claiming it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from django_leased_cron.core.batch_size import BatchSizer
from django_leased_cron.core.clock import BootTime, later
from django_leased_cron.core.events import ClockSuspended
from django_leased_cron.core.outbox import Adoption, ClaimOrder, ClaimReply, TermKey, TermLost, Window
from django_leased_cron.core.planning import flag_planned
from django_leased_cron.exceptions import CommitOutcomeUnknownError
from django_leased_cron.supervision.dispatch_context import DispatchContext
from django_leased_cron.supervision.planner import Planner
from django_leased_cron.supervision.predecessors import LOCKED_RETRY_S, Predecessors
from django_leased_cron.supervision.read_back import ReadBack

_WINDOW = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A claim that the database granted."""

    order: ClaimOrder
    reply: ClaimReply
    window: Window
    asked_at: BootTime
    """Before the guard was sent: what the right to publish counts from (P1)."""
    leaves_more: bool
    """It took as much as it might: more is likely to be due."""


class Claimer:
    """Knows what is due and what earlier terms left; used by one thread at a time.

    Args:
        proved: called with epoch and boot time after the database granted a claim that was sent at that time.
    """

    def __init__(
        self,
        context: DispatchContext,
        *,
        term: TermKey,
        planner: Planner,
        sizer: BatchSizer,
        proved: Callable[[int, BootTime], None],
    ) -> None:
        self._context = context
        self._term = term
        self._planner = planner
        self._sizer = sizer
        self._proved = proved
        self._window: Window | None = None
        self._read_back = ReadBack(context.clock)
        self._clock_was_trusted = True
        self._most = 0
        self._locked_requests: frozenset[int] = frozenset()
        self._locked_until = BootTime(0.0)
        self.predecessors = Predecessors(
            context.outbox,
            context.sightings,
            context.confirmer,
            epoch=term.epoch,
            limit=context.batch_size,
            clock=context.clock,
        )
        self.must_claim = True
        """A new term claims at once, even nothing: until then the lease is owed by a dead one."""
        self.was_answered = False
        """Whether the database has answered since this was last set back."""
        self.has_written = False
        """Whether that was more than reading: where a row is locked, or a disk full, reading goes on."""

    def look(self) -> Window | None:
        """Return what is due soonest; ``None``: nothing is to be claimed by the database's clock as it is now."""
        window = self._read_window()
        trusted = self._context.estimate.is_trusted
        if self._clock_was_trusted and not trusted:
            self._context.emit(ClockSuspended(tenant_key=self._term.tenant_key))
        self._clock_was_trusted = trusted
        if not trusted:
            self._window = None
            return None
        return window

    def forget_window(self) -> None:
        """Have the window read again: the plan has changed."""
        self._window = None

    def order_work(self, window: Window, *, in_hand: Collection[tuple[int, int]]) -> ClaimOrder | None:
        """Return what to claim of what is due and of what earlier terms left; ``None``: nothing."""
        at = self._context.clock.boot_time()
        limit = self._most = self._sizer.size
        if at < self._locked_until:
            window = replace(window, requested=[each for each in window.requested if each not in self._locked_requests])
        # A5: fresh work goes first; half a batch, but at least one, is left to what a predecessor did not finish.
        ready = self.predecessors.find_ready(at)
        kept = min(len(ready), max(1, limit // 2))
        now_ms = self._context.estimate.now_ms(at)
        fresh = self._context.rules.find_due(window, now_ms=now_ms, limit=max(1, limit - kept))
        adoptions = ready[: kept if fresh.advances or fresh.requested else limit]
        for job, error in fresh.malformed:
            self._planner.flag(
                flag_planned(job_id=job.job_id, inputs=job.inputs, next_due_at_ms=job.next_due_at_ms, error=error)
            )
        read_back = self._read_back.is_due(at)
        if not (fresh.advances or fresh.requested or adoptions or read_back or self.must_claim):
            return None
        return ClaimOrder(
            term=self._term,
            advances=fresh.advances,
            requested=fresh.requested,
            adoptions=adoptions,
            read_back=read_back,
            in_hand=self._names(in_hand),
            predecessors_adoptable_in_ms=self.predecessors.adoptable_in_ms,
            adopt_limit=self._context.batch_size,
        )

    def order_again(self, adoptions: Sequence[Adoption], *, in_hand: Collection[tuple[int, int]]) -> ClaimOrder:
        """Return the order for claims of this term that are to be tried once more, and nothing else."""
        return ClaimOrder(
            term=self._term,
            adoptions=adoptions,
            read_back=self._read_back.is_due(self._context.clock.boot_time()),
            in_hand=self._names(in_hand),
            predecessors_adoptable_in_ms=self.predecessors.adoptable_in_ms,
            adopt_limit=self._context.batch_size,
        )

    def claim(self, order: ClaimOrder, window: Window) -> Claimed | TermLost:
        """Carry out an order.

        Raises:
            StoreError: the database did not grant it, or its answer is lost; what it may have done is read back (A4).
        """
        clock = self._context.clock
        asked_at = clock.boot_time()
        self._window = None
        try:
            reply = self._context.outbox.claim(order)
        except CommitOutcomeUnknownError:
            self._read_back.outcome_unknown()
            raise
        self.was_answered = self.has_written = True
        if isinstance(reply, TermLost):
            return reply
        self._context.estimate.note(reply.now_ms, sent_at=asked_at, received_at=clock.boot_time())
        self._proved(self._term.epoch, asked_at)
        self._note_reply(order, reply)
        taken = sum(len(advance.fires) for advance in order.advances) + len(order.requested) + len(order.adoptions)
        return Claimed(order=order, reply=reply, window=window, asked_at=asked_at, leaves_more=taken >= self._most)

    @property
    def read_back_at(self) -> BootTime | None:
        """When a claim is to read back what a lost reply left behind; ``None``: there is no such thing."""
        return self._read_back.due_at

    def _read_window(self) -> Window:
        if self._window is None:
            clock = self._context.clock
            sent_at = clock.boot_time()
            self._window = self._context.outbox.read_window(max(_WINDOW, self._sizer.size))
            self._context.estimate.note(self._window.now_ms, sent_at=sent_at, received_at=clock.boot_time())
            self.was_answered = True
        return self._window

    def _names(self, in_hand: Collection[tuple[int, int]]) -> frozenset[tuple[int, int]]:
        """Return (occurrence id, attempt) of every claim of this term that this process knows to be unconfirmed."""
        return frozenset((*in_hand, *self.predecessors.locked_names, *self._context.confirmer.names(self._term)))

    def _note_reply(self, order: ClaimOrder, reply: ClaimReply) -> None:
        self.must_claim = False
        self._read_back.note(order, reply)
        self.predecessors.drop([adoption.claim for adoption in order.adoptions])
        self.predecessors.put_off(
            adoption for adoption in order.adoptions if adoption.claim.occurrence_id in reply.locked
        )
        locked_requests = frozenset(order.requested) & frozenset(reply.locked)
        if locked_requests:
            self._locked_requests = locked_requests
            self._locked_until = later(self._context.clock.boot_time(), LOCKED_RETRY_S)
        if reply.left_to_planner:
            self._planner.hurry()
