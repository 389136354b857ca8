"""Keeping the plan in step with the rows that people edit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from django_leased_cron.core.clock import BootTime, Clock, later
from django_leased_cron.core.events import Emit, JobFlagged
from django_leased_cron.core.outbox import ChangedJob, ChangeKind, JobRun, Outbox, PlanWrite, TermKey, TermLost
from django_leased_cron.core.planning import Planning

_AT_ONCE = 500
_SHARE_OF_TIME = 0.05
"""A pass over many jobs is repeated only as often as this share of one core allows."""


class Planner:
    """Passes over a tenant's jobs, a part at a time, between the claims of one term."""

    def __init__(
        self, outbox: Outbox, *, term: TermKey, planning: Planning, poll_interval_s: float, clock: Clock, emit: Emit
    ) -> None:
        self._outbox = outbox
        self._term = term
        self._planning = planning
        self._poll_interval_s = poll_interval_s
        self._clock = clock
        self._emit = emit
        self._after_job_id = 0
        self._pass_took_s = 0.0
        self._flags: dict[int, PlanWrite] = {}
        self.due_at = clock.boot_time()

    def hurry(self) -> None:
        """Begin a pass at the next opportunity: a claim has met a job that was re-scheduled."""
        self._after_job_id = 0
        self._pass_took_s = 0.0
        self.due_at = BootTime(0.0)

    def flag(self, write: PlanWrite) -> None:
        """Have a malformed job un-planned at the next opportunity: until then it is due and cannot be claimed."""
        self._flags[write.job_id] = write
        self.hurry()

    def is_due(self, at: BootTime) -> bool:
        return at >= self.due_at

    def is_overdue(self, at: BootTime) -> bool:
        """Whether due work has kept a pass waiting for so long that it goes first now."""
        return at >= later(self.due_at, self._poll_interval_s)

    def run(self, *, now_ms: int, predecessors_adoptable_in_ms: int | None) -> Sequence[JobRun] | TermLost:
        """Do one part of a pass; returns one-offs whose switching off is still to be recorded."""
        started_at = self._clock.boot_time()
        # If this fails, due work goes first again: a pass that cannot be made must not keep anything from being sent.
        self.due_at = later(started_at, self._poll_interval_s)
        changes = self._outbox.find_changes(after_job_id=self._after_job_id, limit=_AT_ONCE)
        finished = [change for change in changes if change.kind is ChangeKind.FINISHED]
        planned = [change for change in changes if change.kind is not ChangeKind.FINISHED]
        writes = [self._planning.plan(change, now_ms=now_ms) for change in planned]
        lost = self._write([*self._flags.values(), *writes], predecessors_adoptable_in_ms=predecessors_adoptable_in_ms)
        if lost is not None:
            return lost
        self._flags.clear()
        self._schedule_next(changes, started_at=started_at)
        return [JobRun(job_id=change.job_id, runs=0, last_run_at_ms=now_ms, finished=True) for change in finished]

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

    def _schedule_next(self, changes: Sequence[ChangedJob], *, started_at: BootTime) -> None:
        at = self._clock.boot_time()
        self._pass_took_s += at - started_at
        if len(changes) >= _AT_ONCE:
            self._after_job_id = max(change.job_id for change in changes)
            self.due_at = at
            return
        # The first pass of a tenant's first term is over: a job that appears from now on fires for nothing past.
        self._planning = replace(self._planning, goes_on_from_last_run=False)
        pause_s = max(self._poll_interval_s, self._pass_took_s / _SHARE_OF_TIME)
        self._after_job_id = 0
        self._pass_took_s = 0.0
        self.due_at = later(at, pause_s)
