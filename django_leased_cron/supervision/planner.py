"""Keeping the plan in step with the rows that people edit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from django_leased_cron.core.clock import BootTime, Clock, later
from django_leased_cron.core.events import EditsFoundSlowly, Emit, JobFlagged
from django_leased_cron.core.outbox import (
    ChangedJob,
    ChangeKind,
    JobRun,
    NotedChanges,
    Outbox,
    PlanWrite,
    TermKey,
    TermLost,
)
from django_leased_cron.core.planning import Planning

_AT_ONCE = 500
_NOTES_AT_ONCE = 5000
_SHARE_OF_TIME = 0.05
"""Passes, of all tenants together, are repeated only as often as this share of one core allows."""
_MANY_JOBS = 20_000
"""Up to so many an edit is to be noticed within a poll and :data:`_NOTICED_BESIDE_POLL_S` all the same."""
_NOTICED_BESIDE_POLL_S = 1.0
_SAFETY_PASS_S = 60.0
"""How often all jobs are passed over although triggers note the edits: for what triggers do not see."""
_SHARE_FOR_SAFETY = 0.01


class Planner:
    """Compares a tenant's jobs with their plans, between the claims of one term.

    A *pass* goes over all jobs, a part at a time. Where triggers note edits, a *look* at the notes is enough, and
    passes become rare; each pass and each look finds out anew whether they do.

    The first pass of a term also examines the jobs that are marked with an error: the reason may have been a machine
    that lacked something, and this one may have it.
    """

    def __init__(
        self,
        outbox: Outbox,
        *,
        term: TermKey,
        planning: Planning,
        poll_interval_s: float,
        clock: Clock,
        emit: Emit,
        looks_unasked: bool = True,
        count_tenants: Callable[[], int] = lambda: 1,
    ) -> None:
        """Begin a term.

        Args:
            looks_unasked: look at the notes at every poll; else when told to (:meth:`look_soon`).
            count_tenants: with how many tenants the share of time for passes is shared.
        """
        self._outbox = outbox
        self._term = term
        self._planning = planning
        self._poll_interval_s = poll_interval_s
        self._looks_unasked = looks_unasked
        self._count_tenants = count_tenants
        self._clock = clock
        self._emit = emit
        self._after_job_id = 0
        self._began_at_ms = 0
        self._looked_at_ms: int | None = None
        self._pass_took_s = 0.0
        self._flags: dict[int, PlanWrite] = {}
        self._edits_are_noted = False
        self._is_first_pass = True
        self._has_told_of_pauses = False
        self._pass_due_at = self._look_due_at = clock.boot_time()

    @property
    def due_at(self) -> BootTime:
        return min(self._pass_due_at, self._look_due_at) if self._edits_are_noted else self._pass_due_at

    def hurry(self) -> None:
        """Begin a pass at the next opportunity: a claim has met a job that was re-scheduled."""
        self._after_job_id = 0
        self._pass_took_s = 0.0
        self._pass_due_at = BootTime(0.0)

    def look_soon(self) -> None:
        """Look at the notes at the next opportunity: an edit was announced."""
        self._look_due_at = BootTime(0.0)

    def flag(self, write: PlanWrite) -> None:
        """Have a malformed job un-planned at the next opportunity: until then it is due and cannot be claimed."""
        self._flags[write.job_id] = write
        self.hurry()

    def is_due(self, at: BootTime) -> bool:
        return at >= self.due_at

    def is_overdue(self, at: BootTime) -> bool:
        """Whether due work has kept this waiting for so long that it goes first now."""
        return at >= later(self.due_at, self._poll_interval_s)

    def run(self, *, now_ms: int, predecessors_adoptable_in_ms: int | None) -> Sequence[JobRun] | TermLost:
        """Do one part of a pass, or one look; returns one-offs whose switching off is still to be recorded."""
        started_at = self._clock.boot_time()
        passes = not self._edits_are_noted or started_at >= self._pass_due_at
        # If this fails, due work goes first again: what cannot be planned must not keep anything from being sent.
        retry_at = later(started_at, self._poll_interval_s)
        self._look_due_at = retry_at
        if passes:
            self._pass_due_at = retry_at
        if self._after_job_id == 0:
            self._began_at_ms = now_ms
            # Before rows or notes are read: what is edited from now on is noted, or it is not.
            self._edits_are_noted = self._outbox.has_edit_triggers()
            if not self._edits_are_noted and not passes:
                passes, self._pass_due_at = True, retry_at
        notes: NotedChanges | None = None
        if passes:
            changes = self._outbox.find_changes(
                after_job_id=self._after_job_id, limit=_AT_ONCE, with_flagged=self._is_first_pass
            )
            # Only looking: what planning takes says nothing of the next pass.
            self._pass_took_s += self._clock.boot_time() - started_at
        else:
            notes = self._outbox.find_noted_changes(limit=_NOTES_AT_ONCE)
            changes = notes.changes
        finished = [change for change in changes if change.kind is ChangeKind.FINISHED]
        writes = self._plan([change for change in changes if change.kind is not ChangeKind.FINISHED], now_ms=now_ms)
        lost = self._write([*self._flags.values(), *writes], predecessors_adoptable_in_ms=predecessors_adoptable_in_ms)
        if lost is not None:
            return lost
        self._flags.clear()
        if not self._looks_unasked:
            self._look_due_at = BootTime(math.inf)
        if notes is None:
            self._schedule_next_pass(changes)
        elif notes.note_ids:
            if notes.everything:
                self.hurry()
            self._outbox.forget_notes(notes.note_ids)
        else:
            self._looked_at_ms = self._began_at_ms
        return [JobRun(job_id=change.job_id, runs=0, last_run_at_ms=now_ms, finished=True) for change in finished]

    def _plan(self, changes: Sequence[ChangedJob], *, now_ms: int) -> list[PlanWrite]:
        writes = []
        for change in changes:
            write = self._planning.plan(change, now_ms=now_ms, looked_at_ms=self._looked_at_ms)
            # Marked for the same reason as before: neither written nor told again.
            if change.kind is not ChangeKind.FLAGGED or write.error != change.error:
                writes.append(write)
        return writes

    def _write(self, writes: Sequence[PlanWrite], *, predecessors_adoptable_in_ms: int | None) -> TermLost | None:
        if not writes:
            return None
        lost = self._outbox.write_plans(
            writes, term=self._term, predecessors_adoptable_in_ms=predecessors_adoptable_in_ms
        )
        if lost is not None:
            return lost
        for write in writes:
            if write.error:
                self._emit(JobFlagged(tenant_key=self._term.tenant_key, job_id=write.job_id, error=write.error))
        return None

    def _schedule_next_pass(self, changes: Sequence[ChangedJob]) -> None:
        at = self._clock.boot_time()
        if len(changes) >= _AT_ONCE:
            self._after_job_id = max(change.job_id for change in changes)
            self._pass_due_at = at
            return
        self._is_first_pass = False
        self._looked_at_ms = self._began_at_ms
        # And if it was that of a tenant's first term: a job that appears from now on fires for nothing past.
        self._planning = replace(self._planning, goes_on_from_last_run=False)
        self._pass_due_at = later(at, self._find_pause_s(self._pass_took_s))
        self._after_job_id = 0
        self._pass_took_s = 0.0

    def _find_pause_s(self, pass_took_s: float) -> float:
        """Return how long to rest after a pass."""
        tenants = self._count_tenants()
        allowed_s = pass_took_s * tenants / _SHARE_OF_TIME
        if self._edits_are_noted:
            return max(_SAFETY_PASS_S, pass_took_s * tenants / _SHARE_FOR_SAFETY)
        # What is edited right after a pass has read it waits for the rest of that pass, the pause, and the next pass;
        # the third is to spare, for not all take as long.
        promised_s = self._poll_interval_s + _NOTICED_BESIDE_POLL_S - 3 * pass_took_s
        # Of several tenants, nobody knows how many jobs the others have.
        has_few_jobs = tenants == 1 and not self._outbox.has_more_jobs_than(_MANY_JOBS)
        if allowed_s <= promised_s or has_few_jobs:
            return max(self._poll_interval_s, min(allowed_s, promised_s))
        if not self._has_told_of_pauses:
            self._has_told_of_pauses = True
            self._emit(EditsFoundSlowly(tenant_key=self._term.tenant_key, pause_s=allowed_s))
        return max(self._poll_interval_s, allowed_s)
