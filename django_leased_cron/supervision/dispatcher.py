"""Scheduling one tenant for one term: claim, publish, confirm, and in between plan.

One step does one of these and says when the next is wanted. While a batch is being published and more is due, the
outcomes of the one before are recorded and the one after is claimed, beside it: two batches in hand, never more. A term
has new memory: everything here is built when it begins and thrown away when it ends, except what the broker accepted
and the database has not recorded, which the confirmer keeps.

Nothing goes out except out of a claim that the database granted (I1, I2); a step that cannot reach the database
raises ``StoreError`` and forgets nothing (I7).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future, wait

from django_leased_cron.core.batch_size import BatchSizer
from django_leased_cron.core.clock import BootTime, later
from django_leased_cron.core.events import BatchDispatched, BrokerOutage, BrokerRecovered
from django_leased_cron.core.outbox import ClaimOrder, TermKey, TermLost, Window
from django_leased_cron.core.planning import Planning, flag_planned
from django_leased_cron.core.publication import Publisher
from django_leased_cron.supervision.back_off import BackOff
from django_leased_cron.supervision.batch import Batch
from django_leased_cron.supervision.claimer import Claimed, Claimer
from django_leased_cron.supervision.dispatch_context import DispatchContext
from django_leased_cron.supervision.hand import Hand
from django_leased_cron.supervision.history import History
from django_leased_cron.supervision.planner import Planner


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
        self._turned = turned
        self._term = term
        self._hand = Hand()
        self._next: Claimed | None = None
        self._sizer = BatchSizer(batch_seconds=context.timing.batch_seconds, largest=context.batch_size)
        self._planner = Planner(
            context.outbox,
            term=term,
            planning=Planning(
                storage_zone=context.rules.storage_zone,
                goes_on_from_last_run=term.epoch == 1,
                solar_calculator=context.rules.solar_calculator,
                seen_within_ms=context.rules.missed_after_ms,
            ),
            poll_interval_s=context.timing.poll_interval_s,
            looks_unasked=not context.edits_are_announced,
            count_tenants=context.count_tenants,
            clock=context.clock,
            emit=context.emit,
        )
        self._claimer = Claimer(context, term=term, planner=self._planner, sizer=self._sizer, proved=proved)
        self._broker = BackOff(longest_s=context.timing.longest_back_off_s)
        self._history = History(context.outbox, retention_s=context.history_retention_s, clock=context.clock)

    @property
    def was_answered(self) -> bool:
        """Whether the database did something in the last step; many steps ask it nothing."""
        return self._claimer.was_answered

    @property
    def epoch(self) -> int:
        return self._term.epoch

    @property
    def has_written(self) -> bool:
        """Whether that was more than reading."""
        return self._claimer.has_written

    def step(self, publisher: Publisher) -> BootTime | TermLost:
        """Do the next thing; return when to step again (a time that has passed: at once).

        Raises:
            StoreError: the database did not do its part; step again after a while.
        """
        claimer, clock = self._claimer, self._context.clock
        claimer.was_answered = claimer.has_written = False
        if self._next is not None:
            return self._dispatch_next(self._next, publisher)
        claimer.predecessors.read()
        self._flush()
        at = clock.boot_time()
        if self._planner.is_overdue(at) and not claimer.must_claim:
            return self._plan(at)
        window = claimer.look()
        if window is None:
            return later(at, self._context.timing.poll_interval_s)
        order = self._build_order(window, publisher)
        if order is not None:
            claimed = claimer.claim(order, window)
            if isinstance(claimed, TermLost):
                return claimed
            self._hand.drop(adoption.claim for adoption in order.adoptions)
            return self._dispatch(claimed, publisher)
        if self._planner.is_due(at):
            return self._plan(at)
        self._history.purge()
        return self._find_next_step(window)

    def look_for_edits(self) -> None:
        """An edit was announced: look for it now, not at the next poll."""
        self._planner.look_soon()

    @property
    def has_claimed_ahead(self) -> bool:
        """Whether there are claims that the publisher has not been given yet."""
        return self._next is not None

    def finish(self, publisher: Publisher) -> None:
        """Publish what is claimed already, claim nothing more, and record what went out."""
        claimed, self._next = self._next, None
        if claimed is not None and not self._broker.is_failing:
            self._publish(self._open(claimed), claimed, publisher)
        self._flush()

    def come_to_rest(self) -> bool:
        """Record what was published; return whether nothing that this term has claimed is on its way then."""
        self._flush()
        return self._next is None and not self._hand and self._context.confirmer.is_empty

    def _flush(self) -> None:
        """Record what was published."""
        confirmer = self._context.confirmer
        owed = not confirmer.is_empty
        confirmer.flush(predecessors_adoptable_in_ms=self._claimer.predecessors.adoptable_in_ms)
        self._claimer.has_written = self._claimer.has_written or owed

    def _plan(self, at: BootTime) -> BootTime | TermLost:
        result = self._planner.run(
            now_ms=self._context.estimate.now_ms(at),
            predecessors_adoptable_in_ms=self._claimer.predecessors.adoptable_in_ms,
        )
        self._claimer.forget_window()
        self._claimer.was_answered = True
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
        if self._is_held_up:
            return self._build_retry(publisher, limit=self._context.batch_size)
        order = self._claimer.order_work(window, in_hand=self._hand.names)
        if order is None and self._hand:
            return self._build_retry(publisher, limit=1)
        return order

    def _build_retry(self, publisher: Publisher, *, limit: int) -> ClaimOrder | None:
        if not self._may_retry(publisher):
            return None
        return self._claimer.order_again(self._hand.find_adoptions(limit=limit), in_hand=self._hand.names)

    @property
    def _is_held_up(self) -> bool:
        """Whether what is in hand comes before everything else."""
        return bool(self._hand) and not self._hand.holds_only_suspects

    def _may_retry(self, publisher: Publisher) -> bool:
        if self._context.clock.boot_time() < self._broker.retry_at:
            return False
        if publisher.is_answering():
            return True
        self._broker_failed("it does not answer")
        return False

    # Publish, and beside it confirm and claim

    def _dispatch(self, claimed: Claimed, publisher: Publisher) -> BootTime | TermLost:
        clock = self._context.clock
        if not claimed.reply.claimed:
            return clock.boot_time()
        goes_on = claimed.leaves_more and not self._hand and not self._broker.is_failing
        batch = self._open(claimed)
        beside: Future[TermLost | None] | None = None
        if goes_on or not self._context.confirmer.is_empty:
            in_hand = self._hand.names
            beside = self._context.run_beside(lambda: self._confirm_and_claim(in_hand, claims=goes_on))
        try:
            self._publish(batch, claimed, publisher)
        finally:
            wait([beside] if beside else [])  # whatever happened: a step never leaves a claim under way behind
        self._flag_malformed(batch, claimed)
        lost = beside.result() if beside else None
        if self._next is None:
            self._flush()
        return clock.boot_time() if lost is None else lost

    def _dispatch_next(self, claimed: Claimed, publisher: Publisher) -> BootTime | TermLost:
        """Publish what was claimed while the batch before it went out; if that one failed, it is retried with it."""
        self._next = None
        if self._broker.is_failing:
            self._hand.keep_all(claimed.reply.claimed)
            return self._context.clock.boot_time()
        return self._dispatch(claimed, publisher)

    def _confirm_and_claim(self, in_hand: Collection[tuple[int, int]], *, claims: bool) -> TermLost | None:
        """Record the batch before the one that is being published, and claim the one after it.

        In this order: with the outcomes of one batch unrecorded and another under way, nothing more is claimed.
        """
        claimer = self._claimer
        claimer.predecessors.read()
        self._flush()
        if not claims or self._planner.is_overdue(self._context.clock.boot_time()):
            return None
        window = claimer.look()
        order = None if window is None else claimer.order_work(window, in_hand=in_hand)
        if window is None or order is None:
            return None
        claimed = claimer.claim(order, window)
        if isinstance(claimed, TermLost):
            return claimed
        self._next = claimed
        return None

    def _open(self, claimed: Claimed) -> Batch:
        context = self._context
        return Batch(claimed.reply, hand=self._hand, estimate=context.estimate, rules=context.rules)

    def _publish(self, batch: Batch, claimed: Claimed, publisher: Publisher) -> None:
        context = self._context
        timing = context.timing
        publications = batch.build_publications()
        started_at = context.clock.boot_time()
        start_deadline = later(claimed.asked_at, timing.publish_timeout_s - timing.start_margin_s)
        try:
            for result in publisher.publish(publications, start_deadline=start_deadline):
                batch.note(result)
                self._turned()
        finally:
            # Whatever went wrong with the others: what the broker accepted is to be confirmed, not published again.
            context.confirmer.add(self._term, batch.settlements, batch.build_runs())
        self._sizer.measure(batch.sent, seconds=context.clock.boot_time() - started_at)
        self._note_broker(batch)
        context.emit(
            BatchDispatched(
                tenant_key=self._term.tenant_key,
                epoch=self._term.epoch,
                sent=batch.sent,
                failed=batch.failed,
                unsent=len(self._hand),
                adopted=sum(occurrence.claim.attempt > 1 for occurrence in claimed.reply.claimed),
                worst_lateness_ms=batch.worst_lateness_ms,
            )
        )

    def _flag_malformed(self, batch: Batch, claimed: Claimed) -> None:
        """Un-plan jobs whose message was found malformed, if their plan is known here; else at their next firing."""
        plans: dict[int, tuple[str, int | None]]
        plans = {job.job_id: (job.inputs, job.next_due_at_ms) for job in claimed.window.jobs}
        plans |= {advance.job_id: (advance.inputs, advance.next_due_at_ms) for advance in claimed.order.advances}
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
        times = [self._planner.due_at]
        if self._hand:
            times.append(self._broker.retry_at)
        if window.jobs and not self._is_held_up:
            times.append(self._context.estimate.boot_time_of(window.jobs[0].fire_at_ms))
        waits = [self._claimer.read_back_at, self._context.confirmer.retry_at]
        if not self._is_held_up:
            waits.append(self._claimer.predecessors.adoptable_at)
        times += [wait for wait in waits if wait is not None]
        return min(times)
