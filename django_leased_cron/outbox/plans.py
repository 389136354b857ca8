"""Writing plans.

Plan writes are guarded transactions that name the inputs they replace: a frozen holder's plan, computed from rows of
long ago, can replace nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from django_leased_cron.core.occurrence import OccurrenceState
from django_leased_cron.core.outbox import PlanWrite, TermKey, TermLost
from django_leased_cron.core.planning_inputs import FORMAT
from django_leased_cron.database.session import Session, SessionPool
from django_leased_cron.database.tables import JOB, JOB_POLICY, OCCURRENCE, STATE
from django_leased_cron.outbox.guard import LeaseGuard
from django_leased_cron.outbox.job_rows import later_known_run
from django_leased_cron.outbox.rows import encode_rows, insert_occurrences, skipped_row

_PLAN = {
    "job_id": "integer",
    "replaced_inputs": "text",
    "replaced_due_at_ms": "integer",
    "inputs": "text",
    "next_due_at_ms": "integer",
    "fire_at_ms": "integer",
    "known_run_at_ms": "integer",
    "error": "text",
    "message_digest": "text",
}
_PENDING = (OccurrenceState.REQUESTED, OccurrenceState.CLAIMED)


class Plans:
    """Writes plans for one tenant's jobs, and forgets its old history."""

    def __init__(self, pool: SessionPool, guard: LeaseGuard) -> None:
        dialect = pool.dialect
        self._pool = pool
        self._guard = guard
        self._dialect = dialect
        self._now = dialect.now_ms
        self._add = dialect.insert_or_ignore(
            STATE,
            columns=["job_id", "inputs", "inputs_format", "error", "message_digest"],
            select=f"SELECT r.job_id, '', {FORMAT}, '', '' FROM {dialect.rows('rows', _PLAN, alias='r')}",
            conflict=["job_id"],
        )
        # Names the plan it replaces on the row itself. An error keeps the moment at which it was first seen.
        self._write = dialect.update_from(
            STATE,
            rows=dialect.rows("rows", _PLAN, alias="r"),
            assignments={
                "error_since_ms": "CASE WHEN r.error = '' THEN NULL WHEN r.error = t.error THEN t.error_since_ms"
                " ELSE %(now_ms)s END",
                "next_due_at_ms": "r.next_due_at_ms",
                "fire_at_ms": "r.fire_at_ms",
                "known_run_at_ms": later_known_run("r.known_run_at_ms"),
                "inputs": "r.inputs",
                "inputs_format": str(FORMAT),
                "error": "r.error",
                "message_digest": "r.message_digest",
            },
            where="t.job_id = r.job_id AND t.inputs = r.replaced_inputs"
            " AND COALESCE(t.next_due_at_ms, -1) = COALESCE(r.replaced_due_at_ms, -1)",
        )
        gone = f"{dialect.any_of('job_id', 'ids')} AND NOT EXISTS (SELECT 1 FROM {JOB} AS p WHERE p.id = job_id)"
        self._sweep = [f"DELETE FROM {table} WHERE {gone}" for table in (STATE, JOB_POLICY)]
        self._insert = insert_occurrences(dialect)
        # The states one by one, not NOT IN: by the index, or every look would read the whole outbox.
        done = ", ".join(f"'{state}'" for state in OccurrenceState if state not in _PENDING)
        self._find_old = (
            f"SELECT id FROM {OCCURRENCE} WHERE state IN ({done}) AND due_at_ms < %(before_ms)s LIMIT %(limit)s"
        )
        self._purge = f"DELETE FROM {OCCURRENCE} WHERE {dialect.any_of('id', 'ids')}"

    def on(self, pool: SessionPool) -> Plans:
        """Return the same statements on other sessions."""
        other = copy(self)
        other._pool = pool
        return other

    def write(
        self, writes: Sequence[PlanWrite], term: TermKey, *, predecessors_adoptable_in_ms: int | None
    ) -> TermLost | None:
        with self._pool.transaction() as session:
            if not self._guard.hold(session, term):
                return TermLost()
            ((now_ms,),) = session.fetch(f"SELECT {self._now}")
            self._write_all(session, writes, epoch=term.epoch, now_ms=now_ms)
            self._guard.move_owed(session, term, predecessors_adoptable_in_ms=predecessors_adoptable_in_ms)
        return None

    def purge(self, *, older_than_ms: int, limit: int) -> int:
        with self._pool.transaction() as session:
            ((now_ms,),) = session.fetch(f"SELECT {self._now}")
            found = session.fetch(self._find_old, {"before_ms": now_ms - older_than_ms, "limit": limit})
            if found:
                session.execute(self._purge, {"ids": self._dialect.id_list({row[0] for row in found})})
        return len(found)

    def _write_all(self, session: Session, writes: Sequence[PlanWrite], *, epoch: int, now_ms: int) -> None:
        replaced = [
            skipped_row(
                write.job_id,
                first_due_at_ms=write.replaced_due_at_ms,
                due_at_ms=write.replaced_last_due_at_ms or write.replaced_due_at_ms,
                slots=write.replaced_slots,
                epoch=epoch,
                reason=write.replaced_because,
            )
            for write in writes
            if write.replaced_due_at_ms is not None
            and write.replaced_due_at_ms <= now_ms
            and write.replaced_due_at_ms != write.next_due_at_ms
        ]
        if replaced:
            session.execute(self._insert, {"rows": encode_rows(replaced)})
        plans = [{name: getattr(write, name) for name in _PLAN} for write in writes if not write.delete]
        if plans:
            rows = encode_rows(plans)
            session.execute(self._add, {"rows": rows})
            session.execute(self._write, {"rows": rows, "now_ms": now_ms})
        deleted = {write.job_id for write in writes if write.delete}
        if deleted:
            ids = self._dialect.id_list(deleted)
            for statement in self._sweep:
                session.execute(statement, {"ids": ids})
