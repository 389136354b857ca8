"""The confirm: recording what the broker has, and telling django-celery-beat's rows (P2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from django_leased_cron.core.outbox import JobRun, Outcome, Settlement, TermKey
from django_leased_cron.database.session import SessionPool
from django_leased_cron.database.tables import JOB, OCCURRENCE
from django_leased_cron.outbox.guard import LeaseGuard
from django_leased_cron.outbox.row_locks import RowLocks
from django_leased_cron.outbox.rows import encode_rows

_SETTLEMENT = {
    "id": "integer",
    "epoch": "integer",
    "attempt": "integer",
    "state": "text",
    "reason": "text",
    "sent_at_ms": "integer",
    "finished_at_ms": "integer",
}
_RUN = {"job_id": "integer", "runs": "integer", "finished": "integer"}


class Confirmation:
    """Writes outcomes of one tenant's publications."""

    def __init__(self, pool: SessionPool, guard: LeaseGuard, *, stored_instant: Callable[[int], Any]) -> None:
        dialect = pool.dialect
        self._pool = pool
        self._guard = guard
        self._stored_instant = stored_instant
        # P2 (ii): by claim, in state claimed or uncertain. The claim was adopted meanwhile, or a worker has started
        # it: no row matches, which is right. The reply is lost: it is sent again and matches nothing.
        self._settle = dialect.update_from(
            OCCURRENCE,
            rows=dialect.rows("rows", _SETTLEMENT, alias="r"),
            assignments={
                "state": "r.state",
                "reason": "r.reason",
                "sent_at_ms": "r.sent_at_ms",
                "finished_at_ms": "r.finished_at_ms",
            },
            where="t.id = r.id AND t.epoch = r.epoch AND t.attempt = r.attempt AND t.state IN ('claimed', 'uncertain')",
        )
        self._occurrences = RowLocks(dialect, OCCURRENCE)
        self._jobs = RowLocks(dialect, JOB)
        # Only forward, and by increments: a late message of an old term can neither set a time nor a count back.
        self._record = dialect.update_from(
            JOB,
            rows=dialect.rows("rows", _RUN, alias="r"),
            assignments={
                "last_run_at": "CASE WHEN r.runs = 0 OR t.last_run_at > %(ran_at)s THEN t.last_run_at"
                " ELSE %(ran_at)s END",
                # Back to 0 for a one-off, as django-celery-beat has it: with a count it would not run once more
                # there, nor here, when people switch it on again.
                "total_run_count": "CASE WHEN r.finished = 1 THEN 0 ELSE t.total_run_count + r.runs END",
                "enabled": "CASE WHEN r.finished = 1 THEN false ELSE t.enabled END",
            },
            where="t.id = r.job_id",
        )

    def on(self, pool: SessionPool) -> Confirmation:
        """Return the same statements on other sessions."""
        other = copy(self)
        other._pool = pool
        return other

    def confirm(
        self, settlements: Sequence[Settlement], term: TermKey, *, predecessors_adoptable_in_ms: int | None
    ) -> Sequence[Settlement]:
        by_id = {settlement.claim.occurrence_id: settlement for settlement in settlements}
        with self._pool.transaction() as session:
            self._guard.lock(session, term)
            taken = self._occurrences.take(session, by_id)
            if taken.free:
                rows = [_row(by_id[occurrence_id]) for occurrence_id in sorted(taken.free)]
                session.execute(self._settle, {"rows": encode_rows(rows)})
            self._guard.move_owed(session, term, predecessors_adoptable_in_ms=predecessors_adoptable_in_ms)
        return [by_id[occurrence_id] for occurrence_id in sorted(taken.locked)]

    def record_runs(self, runs: Sequence[JobRun]) -> Sequence[JobRun]:
        """Write runs that share one ``last_run_at_ms``; return those whose rows are locked by others.

        Apart from the confirm, so that whatever is wrong with these rows cannot keep a confirm from being written.
        """
        by_job = {run.job_id: run for run in runs}
        with self._pool.transaction() as session:
            taken = self._jobs.take(session, by_job)
            free = [by_job[job_id] for job_id in sorted(taken.free)]
            if free:
                rows = [{"job_id": run.job_id, "runs": run.runs, "finished": int(run.finished)} for run in free]
                ran_at = self._stored_instant(free[0].last_run_at_ms)
                session.execute(self._record, {"rows": encode_rows(rows), "ran_at": ran_at})
        return [by_job[job_id] for job_id in sorted(taken.locked)]


def _row(settlement: Settlement) -> dict[str, Any]:
    row = {
        "id": settlement.claim.occurrence_id,
        "epoch": settlement.claim.epoch,
        "attempt": settlement.claim.attempt,
        "state": settlement.outcome,
        "reason": settlement.reason,
    }
    if settlement.outcome is Outcome.SENT:
        row["sent_at_ms"] = settlement.at_ms
    elif settlement.outcome is Outcome.FAILED:
        row["finished_at_ms"] = settlement.at_ms
    return row
