"""The plan and the outbox of one tenant, in memory: what the dispatcher sees of a database.

Kept: the guard, the plan that an advance names, rules P2, A1, A4, A7, and of A6 the deleted and the disabled job.
Not kept, because SQL decides it and the dispatcher only takes note: pauses, overlap, superseded claims, what differs
between rows and plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django_leased_cron.core.occurrence import Delivery, OccurrenceState, SkipReason
from django_leased_cron.core.outbox import (
    Adoption,
    Advance,
    ChangedJob,
    ChangeKind,
    ClaimedOccurrence,
    ClaimOrder,
    ClaimReply,
    JobRun,
    NotedChanges,
    PlannedJob,
    PlanWrite,
    Settlement,
    TermKey,
    TermLost,
    UnconfirmedClaim,
    Window,
)
from django_leased_cron.core.planning_inputs import PlanningInputs
from django_leased_cron.testing import Acts, FakeClock, InMemoryLeaseStore
from tests.unit.core.job_rows import message
from tests.unit.supervision.outbox_rows import Job, Occurrence

CLAIMED, SKIPPED, UNCERTAIN = OccurrenceState.CLAIMED, OccurrenceState.SKIPPED, OccurrenceState.UNCERTAIN


class InMemoryOutbox:
    """See the port ``Outbox``; the leases that guard it are those of the store.

    Attributes:
        jobs: the rows that people edit; a test edits them too.
        plans: what is planned, by job id.
        changes: what the comparison of rows and plans is to find, until a plan is written for it.
        notes_edits: whether triggers note edits.
        noted_jobs: the jobs of ``changes`` that they have noted.
        job_count: how many jobs there are for all that the planner can see.
        written: the plans that were written.
        occurrences: the outbox, by id.
        runs: what django-celery-beat's rows were told.
        locked_jobs: rows of jobs that an editor holds.
        locked_occurrences: rows of the outbox that somebody holds.
        orders: what claims were asked for.
        old: how many occurrences are there to purge.
        acts: what was done, and what is to be slow or to fail.
    """

    def __init__(self, leases: InMemoryLeaseStore, clock: FakeClock) -> None:
        self.jobs: dict[int, Job] = {}
        self.plans: dict[int, PlannedJob] = {}
        self.changes: list[ChangedJob] = []
        self.notes_edits = False
        self.noted_jobs: set[int] = set()
        self.job_count = 1
        self.written: list[PlanWrite] = []
        self.occurrences: dict[int, Occurrence] = {}
        self.runs: list[JobRun] = []
        self.locked_jobs: set[int] = set()
        self.locked_occurrences: set[int] = set()
        self.orders: list[ClaimOrder] = []
        self.old = 0
        self.acts = Acts(clock)
        self._leases = leases
        self._slots: set[tuple[int, int]] = set()

    # What a test arranges and asks

    def plan(self, job_id: int, inputs: str, *, due_at_ms: int, delivery: str = "", **columns: Any) -> None:
        """Add a job that is planned already."""
        self.jobs[job_id] = Job(inputs=inputs, message=message(**columns))
        self.plans[job_id] = PlannedJob(
            job_id=job_id, next_due_at_ms=due_at_ms, fire_at_ms=due_at_ms, inputs=inputs, delivery=delivery
        )

    def add(self, job_id: int, *, due_at_ms: int, state: OccurrenceState = CLAIMED, **columns: Any) -> Occurrence:
        """Add an occurrence; by default one that epoch 1 claimed and did not confirm."""
        values: dict[str, Any] = {"epoch": 1, "attempt": 1, "delivery": Delivery.AT_LEAST_ONCE}
        row = Occurrence(
            id=len(self.occurrences) + 1, job_id=job_id, due_at_ms=due_at_ms, state=state, **values | columns
        )
        self.occurrences[row.id] = row
        self._slots.add((job_id, due_at_ms))
        return row

    def states(self) -> list[str]:
        """Return the state of each occurrence, in the order in which they were added."""
        return [row.state for row in self.occurrences.values()]

    # The port

    def read_window(self, limit: int) -> Window:
        with self.acts.act("read_window"):
            jobs = sorted(self.plans.values(), key=lambda job: (job.fire_at_ms, job.job_id))
            requested = [row.id for row in self.occurrences.values() if row.state is OccurrenceState.REQUESTED]
            return Window(now_ms=self._leases.now_ms, jobs=jobs[:limit], requested=requested[:limit])

    def read_predecessors(self, *, epoch: int, limit: int) -> Sequence[UnconfirmedClaim]:
        with self.acts.act("read_predecessors"):
            rows = sorted(self._unconfirmed(), key=lambda row: row.due_at_ms)
            return [row.claim for row in rows if row.epoch < epoch][:limit]

    def claim(self, order: ClaimOrder) -> ClaimReply | TermLost:
        with self.acts.act("claim"):
            self.orders.append(order)
            if not self._guard(order.term):
                return TermLost()
            before = {row.claim for row in self._own(order.term.epoch)}
            unknown = self._read_back(order) if order.read_back else []
            left = [advance.job_id for advance in order.advances if not self._advance(advance, order.term.epoch)]
            for row in map(self.occurrences.__getitem__, order.requested):
                if row.state is OccurrenceState.REQUESTED and row.id not in self.locked_occurrences:
                    row.state, row.attempt, row.epoch = CLAIMED, 1, order.term.epoch
            adoptions = [*order.adoptions, *unknown[: order.adopt_limit]]
            for adoption in adoptions:
                self._adopt(adoption, order.term.epoch)
            asked = {adoption.claim.occurrence_id for adoption in adoptions} | set(order.requested)
            locked = asked & self.locked_occurrences
            self._move_owed(order.term, order.predecessors_adoptable_in_ms)
            new = [row for row in self._own(order.term.epoch) if row.claim not in before]
            return ClaimReply(
                now_ms=self._leases.now_ms,
                claimed=[self._read_claimed(row) for row in new],
                locked=locked,
                left_to_planner=left,
                read_back_complete=len(unknown) <= order.adopt_limit
                and not any(adoption.claim.occurrence_id in locked for adoption in unknown),
            )

    def confirm(
        self, settlements: Sequence[Settlement], *, term: TermKey, predecessors_adoptable_in_ms: int | None
    ) -> Sequence[Settlement]:
        with self.acts.act("confirm"):
            self._guard(term)
            locked = [each for each in settlements if each.claim.occurrence_id in self.locked_occurrences]
            for settlement in settlements:
                if settlement in locked:
                    continue
                row = self.occurrences[settlement.claim.occurrence_id]
                if row.claim == settlement.claim and row.state in {CLAIMED, UNCERTAIN}:
                    row.state, row.reason = OccurrenceState(settlement.outcome), settlement.reason
            self._move_owed(term, predecessors_adoptable_in_ms)
            return locked

    def record_runs(self, runs: Sequence[JobRun]) -> Sequence[JobRun]:
        with self.acts.act("record_runs"):
            self.runs += [run for run in runs if run.job_id not in self.locked_jobs]
            return [run for run in runs if run.job_id in self.locked_jobs]

    def find_changes(self, *, after_job_id: int, limit: int, with_flagged: bool = False) -> Sequence[ChangedJob]:
        with self.acts.act("find_changes"):
            wanted = [change for change in self.changes if with_flagged or change.kind is not ChangeKind.FLAGGED]
            return [change for change in wanted if change.job_id > after_job_id][:limit]

    def find_noted_changes(self, *, limit: int) -> NotedChanges:
        with self.acts.act("find_noted_changes"):
            noted = [change for change in self.changes if change.job_id in self.noted_jobs]
            return NotedChanges(note_ids=sorted(self.noted_jobs)[:limit], changes=noted, everything=False)

    def forget_notes(self, note_ids: Sequence[int]) -> None:
        with self.acts.act("forget_notes"):
            self.noted_jobs.difference_update(note_ids)

    def has_edit_triggers(self) -> bool:
        return self.notes_edits

    def has_more_jobs_than(self, count: int) -> bool:
        return self.job_count > count

    def write_plans(
        self, writes: Sequence[PlanWrite], *, term: TermKey, predecessors_adoptable_in_ms: int | None
    ) -> TermLost | None:
        with self.acts.act("write_plans"):
            if not self._guard(term):
                return TermLost()
            for write in writes:
                self._write_plan(write)
            self._move_owed(term, predecessors_adoptable_in_ms)
            return None

    def purge(self, *, older_than_ms: int, limit: int) -> int:
        with self.acts.act("purge"):
            purged = min(limit, self.old)
            self.old -= purged
            return purged

    # The statements

    def _guard(self, term: TermKey) -> bool:
        holds = self._leases.is_held(term.tenant_key, holder_id=term.holder_id, epoch=term.epoch)
        if holds:
            now_ms = self._leases.now_ms
            expires_at_ms = now_ms + self._leases.lease_ttl_ms
            self._leases.change(term.tenant_key, expires_at_ms=expires_at_ms, progressed_at_ms=now_ms)
        return holds

    def _move_owed(self, term: TermKey, adoptable_in_ms: int | None) -> None:
        if self._leases.is_held(term.tenant_key, holder_id=term.holder_id, epoch=term.epoch):
            times = [plan.fire_at_ms for plan in self.plans.values()]
            times += [
                row.claimed_at_ms if row.epoch == term.epoch else self._leases.now_ms + (adoptable_in_ms or 0)
                for row in self._unconfirmed()
            ]
            self._leases.change(term.tenant_key, owed_since_ms=min(times, default=None))

    def _advance(self, advance: Advance, epoch: int) -> bool:
        """Return whether the plan and the job's row still fit; a plan that moved is left alone."""
        plan, job = self.plans.get(advance.job_id), self.jobs.get(advance.job_id)
        if plan is None or plan.next_due_at_ms != advance.planned_due_at_ms:
            return True
        if job is not None and job.enabled and job.inputs != advance.inputs:
            return False
        del self.plans[advance.job_id]
        reason = SkipReason.DELETED if job is None else SkipReason.DISABLED if not job.enabled else None
        for fire in advance.fires:
            self._insert(advance.job_id, fire.due_at_ms, epoch, reason, task_id=fire.task_id, delivery=advance.delivery)
        for stretch in advance.skipped:
            self._insert(advance.job_id, stretch.last_due_at_ms, epoch, stretch.reason)
        if reason is None and advance.next_due_at_ms is not None and advance.next_fire_at_ms is not None:
            self.plans[advance.job_id] = replace(
                plan, next_due_at_ms=advance.next_due_at_ms, fire_at_ms=advance.next_fire_at_ms
            )
        return True

    def _insert(
        self,
        job_id: int,
        due_at_ms: int,
        epoch: int,
        reason: SkipReason | None,
        *,
        task_id: str = "",
        delivery: str = "",
    ) -> None:
        if (job_id, due_at_ms) in self._slots:
            return
        state = CLAIMED if reason is None else SKIPPED
        self.add(
            job_id,
            due_at_ms=due_at_ms,
            state=state,
            epoch=epoch,
            attempt=int(reason is None),
            task_id=task_id,
            delivery=delivery,
            claimed_at_ms=self._leases.now_ms,
            reason=reason or "",
        )

    def _read_back(self, order: ClaimOrder) -> list[Adoption]:
        own = [row.claim for row in self._own(order.term.epoch) if (row.id, row.attempt) not in set(order.in_hand)]
        return [Adoption(claim=claim, never_started=True) for claim in own]

    def _adopt(self, adoption: Adoption, epoch: int) -> None:
        row = self.occurrences[adoption.claim.occurrence_id]
        if row.claim != adoption.claim or row.state is not CLAIMED or row.id in self.locked_occurrences:
            return
        job = self.jobs.get(row.job_id)
        if job is None:
            row.state, row.reason = SKIPPED, SkipReason.DELETED
        elif not job.enabled:
            never_sent = adoption.never_started and row.attempt == 1
            row.state, row.reason = (SKIPPED, SkipReason.DISABLED) if never_sent else (UNCERTAIN, "edited")
        elif row.delivery == Delivery.AT_MOST_ONCE and not adoption.never_started:
            row.state, row.reason = UNCERTAIN, "at most once"
        else:
            row.epoch, row.attempt, row.claimed_at_ms = epoch, row.attempt + 1, self._leases.now_ms

    def _read_claimed(self, row: Occurrence) -> ClaimedOccurrence:
        job = self.jobs.get(row.job_id)
        return ClaimedOccurrence(
            claim=row.claim,
            job_id=row.job_id,
            due_at_ms=row.due_at_ms,
            task_id=row.task_id,
            at_most_once=row.delivery == Delivery.AT_MOST_ONCE,
            claimed_at_ms=row.claimed_at_ms,
            message=None if job is None else job.message,
            finishes=job is not None
            and PlanningInputs.split(job.inputs)["one_off"] == "1"
            and row.job_id not in self.plans,
        )

    def _write_plan(self, write: PlanWrite) -> None:
        self.written.append(write)
        self.changes = [change for change in self.changes if change.job_id != write.job_id]
        self.plans.pop(write.job_id, None)
        if write.next_due_at_ms is not None and write.fire_at_ms is not None:
            self.plans[write.job_id] = PlannedJob(
                job_id=write.job_id,
                next_due_at_ms=write.next_due_at_ms,
                fire_at_ms=write.fire_at_ms,
                inputs=write.inputs,
            )

    def _unconfirmed(self) -> list[Occurrence]:
        return [row for row in self.occurrences.values() if row.state is CLAIMED]

    def _own(self, epoch: int) -> list[Occurrence]:
        return [row for row in self._unconfirmed() if row.epoch == epoch]
