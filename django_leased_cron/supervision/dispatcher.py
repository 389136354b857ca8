"""Scheduling one tenant for one term: claim, publish, confirm, and in between plan.

One step does one of these and says when the next is wanted. A term has new memory: everything here is built when it
begins and thrown away when it ends, except what the broker accepted and the database has not recorded, which the
confirmer keeps.

Nothing goes out except out of a claim that the database granted (I1, I2); a step that cannot reach the database
raises ``StoreError`` and forgets nothing (I7).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django_leased_cron.core.batch_size import BatchSizer
from django_leased_cron.core.claiming import DueWork
from django_leased_cron.core.clock import BootTime, later
from django_leased_cron.core.events import (
    BatchDispatched,
    BrokerOutage,
    BrokerRecovered,
    ClockSuspended,
)
from django_leased_cron.core.outbox import (
    Adoption,
    ClaimOrder,
    ClaimReply,
    TermKey,
    TermLost,
    Window,
)
from django_leased_cron.core.planning import Planning, flag_planned
from django_leased_cron.core.publication import Publisher
from django_leased_cron.exceptions import CommitOutcomeUnknownError
from django_leased_cron.supervision.back_off import BackOff
from django_leased_cron.supervision.batch import Batch
from django_leased_cron.supervision.dispatch_context import DispatchContext
from django_leased_cron.supervision.hand import Hand
from django_leased_cron.supervision.history import History
from django_leased_cron.supervision.planner import Planner
from django_leased_cron.supervision.predecessors import Predecessors
from django_leased_cron.supervision.read_back import ReadBack

_WINDOW = 50


class TermDispatcher:
    """One tenant's scheduler for one term."""

    def __init__(
        self,
        context: DispatchContext,
        *,
        term: TermKey,
        proved: Callable[[int, BootTime], None],
        turned: Callable[[], None],
    ) -> None:
        """Begin a term.

        Args:
            proved: called with epoch and boot time after the database granted a claim that was sent at that time.
            turned: called whenever the loop turns; the keeper renews only a loop that does.
        """
        self._context = context
        self._proved = proved
        self._turned = turned
        self._term = term
        self._hand = Hand()
        self._sizer = BatchSizer(batch_seconds=context.timing.batch_seconds, largest=context.batch_size)
        self._planner = Planner(
            context.outbox,
            term=term,
            planning=Planning(
                storage_zone=context.rules.storage_zone,
                goes_on_from_last_run=term.epoch == 1,
                solar_calculator=context.rules.solar_calculator,
            ),
            poll_interval_s=context.timing.poll_interval_s,
            clock=context.clock,
            emit=context.emit,
        )
        self._window: Window | None = None
        self._predecessors = Predecessors(
            context.outbox, context.sightings, epoch=term.epoch, limit=context.batch_size, clock=context.clock
        )
        self._broker = BackOff(longest_s=context.timing.longest_back_off_s)
        self._must_claim = True  # a new term claims at once, even nothing: until then the lease is owed by a dead one
        self._read_back = ReadBack(context.clock)
        self._history = History(context.outbox, retention_s=context.history_retention_s, clock=context.clock)
        self._clock_was_trusted = True
        self.was_answered = False
        """Whether the database did something in the last step; many steps ask it nothing."""

    def step(self, publisher: Publisher) -> BootTime | TermLost:
        """Do the next thing; return when to step again (a time that has passed: at once).

        Raises:
            StoreError: the database did not do its part; step again after a while.
        """
        context = self._context
        self.was_answered = False
        self._predecessors.read()
        self.flush()
        at = context.clock.boot_time()
        if self._planner.is_overdue(at) and not self._must_claim:
            return self._plan(at)
        window = self._read_window()
        if not self._is_clock_trusted():
            self._window = None
            return later(at, context.timing.poll_interval_s)
        order = self._build_order(window, publisher)
        if order is not None:
            return self._dispatch(order, publisher, window)
        if self._planner.is_due(at):
            return self._plan(at)
        self._history.purge()
        return self._find_next_step(window)

    def look_for_edits(self) -> None:
        """An edit was announced: look for it now, not at the next poll."""
        self._planner.look_soon()

    def flush(self) -> None:
        """Record what was published."""
        self._context.confirmer.flush(predecessors_adoptable_in_ms=self._predecessors.adoptable_in_ms)

    # Looking

    def _read_window(self) -> Window:
        if self._window is None:
            clock = self._context.clock
            sent_at = clock.boot_time()
            self._window = self._context.outbox.read_window(max(_WINDOW, self._sizer.size))
            self._context.estimate.note(self._window.now_ms, sent_at=sent_at, received_at=clock.boot_time())
            self.was_answered = True
        return self._window

    def _is_clock_trusted(self) -> bool:
        trusted = self._context.estimate.is_trusted
        if self._clock_was_trusted and not trusted:
            self._context.emit(ClockSuspended(tenant_key=self._term.tenant_key))
        self._clock_was_trusted = trusted
        return trusted

    def _plan(self, at: BootTime) -> BootTime | TermLost:
        result = self._planner.run(
            now_ms=self._context.estimate.now_ms(at), predecessors_adoptable_in_ms=self._predecessors.adoptable_in_ms
        )
        self._window = None
        self.was_answered = True
        if isinstance(result, TermLost):
            return result
        self._context.confirmer.add(self._term, (), result)
        return at

    # Deciding what to claim

    def _build_order(self, window: Window, publisher: Publisher) -> ClaimOrder | None:
        """Return what to claim now, or ``None``.

        While anything of this term is unpublished, only that is adopted, and only once the broker answers: an hour
        without a broker must not become an hour of outbox.
        """
        at = self._context.clock.boot_time()
        limit = self._sizer.size
        fresh = DueWork()
        adoptions: Sequence[Adoption]
        if self._is_held_up:
            if not self._may_retry(at, publisher):
                return None
            adoptions = self._hand.find_adoptions(limit=self._context.batch_size)
        else:
            # A5: fresh work goes first; half a batch, but at least one, is left to what a predecessor did not finish.
            ready = self._predecessors.find_ready(at)
            kept = min(len(ready), max(1, limit // 2))
            now_ms = self._context.estimate.now_ms(at)
            fresh = self._context.rules.find_due(window, now_ms=now_ms, limit=max(1, limit - kept))
            adoptions = ready[: kept if fresh.advances or fresh.requested else limit]
            if self._hand and not (fresh.advances or fresh.requested or adoptions) and self._may_retry(at, publisher):
                adoptions = self._hand.find_adoptions(limit=1)
        for job, error in fresh.malformed:
            self._planner.flag(
                flag_planned(job_id=job.job_id, inputs=job.inputs, next_due_at_ms=job.next_due_at_ms, error=error)
            )
        read_back = self._read_back.is_due(at)
        if not (fresh.advances or fresh.requested or adoptions or read_back or self._must_claim):
            return None
        return ClaimOrder(
            term=self._term,
            advances=fresh.advances,
            requested=fresh.requested,
            adoptions=adoptions,
            read_back=read_back,
            in_hand=self._find_names(),
            predecessors_adoptable_in_ms=self._predecessors.adoptable_in_ms,
            adopt_limit=self._context.batch_size,
        )

    @property
    def _is_held_up(self) -> bool:
        """Whether what is in hand comes before everything else."""
        return bool(self._hand) and not self._hand.holds_only_suspects

    def _find_names(self) -> frozenset[tuple[int, int]]:
        """Return (occurrence id, attempt) of every claim of this term that this process knows to be unconfirmed."""
        return self._hand.names | self._predecessors.locked_names | self._context.confirmer.names(self._term)

    def _may_retry(self, at: BootTime, publisher: Publisher) -> bool:
        if at < self._broker.retry_at:
            return False
        if publisher.is_answering():
            return True
        self._broker_failed("it does not answer")
        return False

    # Claim, publish, confirm

    def _dispatch(self, order: ClaimOrder, publisher: Publisher, window: Window) -> BootTime | TermLost:
        clock = self._context.clock
        asked_at = clock.boot_time()  # before the guard is sent: what trust and the right to publish count from
        self._window = None
        try:
            reply = self._context.outbox.claim(order)
        except CommitOutcomeUnknownError:
            self._read_back.outcome_unknown()
            raise
        self.was_answered = True
        if isinstance(reply, TermLost):
            return reply
        self._context.estimate.note(reply.now_ms, sent_at=asked_at, received_at=clock.boot_time())
        self._proved(self._term.epoch, asked_at)
        self._note_reply(order, reply)
        if reply.claimed:
            batch = self._publish(order, reply, publisher, asked_at=asked_at)
            self._flag_malformed(batch, order, window)
            self.flush()
        return clock.boot_time()

    def _note_reply(self, order: ClaimOrder, reply: ClaimReply) -> None:
        self._must_claim = False
        self._read_back.note(order, reply)
        asked = [adoption.claim for adoption in order.adoptions]
        self._hand.drop(asked)
        self._predecessors.drop(asked)
        self._predecessors.put_off(
            adoption for adoption in order.adoptions if adoption.claim.occurrence_id in reply.locked
        )
        if reply.left_to_planner:
            self._planner.hurry()

    def _publish(self, order: ClaimOrder, reply: ClaimReply, publisher: Publisher, *, asked_at: BootTime) -> Batch:
        context = self._context
        timing = context.timing
        batch = Batch(reply, hand=self._hand, estimate=context.estimate, rules=context.rules)
        publications = batch.build_publications()
        started_at = context.clock.boot_time()
        start_deadline = later(asked_at, timing.publish_timeout_s - timing.start_margin_s)
        try:
            for result in publisher.publish(publications, start_deadline=start_deadline):
                batch.note(result)
                self._turned()
        finally:
            # Whatever went wrong with the others: what the broker accepted is to be confirmed, not published again.
            context.confirmer.add(self._term, batch.settlements, batch.build_runs(order))
        self._sizer.measure(batch.sent, seconds=context.clock.boot_time() - started_at)
        self._note_broker(batch)
        context.emit(
            BatchDispatched(
                tenant_key=self._term.tenant_key,
                epoch=self._term.epoch,
                sent=batch.sent,
                failed=batch.failed,
                unsent=len(self._hand),
                adopted=sum(occurrence.claim.attempt > 1 for occurrence in reply.claimed),
                worst_lateness_ms=batch.worst_lateness_ms,
            )
        )
        return batch

    def _flag_malformed(self, batch: Batch, order: ClaimOrder, window: Window) -> None:
        """Un-plan jobs whose message was found malformed, if their plan is known here; else at their next firing."""
        plans: dict[int, tuple[str, int | None]]
        plans = {job.job_id: (job.inputs, job.next_due_at_ms) for job in window.jobs}
        plans |= {advance.job_id: (advance.inputs, advance.next_due_at_ms) for advance in order.advances}
        for job_id, error, digest in batch.malformed:
            if job_id in plans:
                inputs, due_at_ms = plans[job_id]
                self._planner.flag(
                    flag_planned(
                        job_id=job_id, inputs=inputs, next_due_at_ms=due_at_ms, error=error, message_digest=digest
                    )
                )

    def _note_broker(self, batch: Batch) -> None:
        if batch.outage is not None:
            self._broker_failed(batch.outage)
        elif self._broker.is_failing:
            self._broker.worked()
            self._context.emit(BrokerRecovered(tenant_key=self._term.tenant_key))

    def _broker_failed(self, detail: str) -> None:
        """Leave the broker alone for a while, and tell of the outage once."""
        if not self._broker.is_failing:
            tenant_key, in_hand = self._term.tenant_key, len(self._hand)
            self._context.emit(BrokerOutage(tenant_key=tenant_key, detail=detail, in_hand=in_hand))
        self._broker.failed(self._context.clock.boot_time())

    # Waiting

    def _find_next_step(self, window: Window) -> BootTime:
        """Return when something is to be done next: a firing, a pass of the planner, an adoption, a retry."""
        # An idle turn now and then: the keeper renews only a loop that turns, and a long pass makes a long pause.
        idle_s = self._context.timing.loop_stalled_after_s / 3
        times = [self._planner.due_at, later(self._context.clock.boot_time(), idle_s)]
        if self._hand:
            times.append(self._broker.retry_at)
        if window.jobs and not self._is_held_up:
            times.append(self._context.estimate.boot_time_of(window.jobs[0].fire_at_ms))
        waits = [self._read_back.due_at, self._context.confirmer.retry_at]
        if not self._is_held_up:
            waits.append(self._predecessors.adoptable_at)
        times += [wait for wait in waits if wait is not None]
        return min(times)
