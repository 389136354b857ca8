"""Noticing what differs from the plan.

Rows and plans are compared in the database, so an edit is seen by whatever path it came, from whatever clock, and
unchanged jobs cost Python nothing. Where edit triggers are installed they say which rows to compare; without them, and
as a safety net now and then with them, all are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from copy import copy
from typing import Any, Final

from django_leased_cron.core.outbox import ChangedJob, ChangeKind, NotedChanges
from django_leased_cron.core.planning_inputs import FORMAT
from django_leased_cron.database.session import Session, SessionPool
from django_leased_cron.database.tables import EDIT, JOB, JOB_POLICY, OCCURRENCE, STATE
from django_leased_cron.edit_triggers import find_triggers
from django_leased_cron.edit_triggers.watched import SCHEDULES
from django_leased_cron.outbox.job_rows import JOB_WITH_SCHEDULE, message_digest, planning_inputs, run_by_other

_MOST_JOBS: Final = 500
"""More jobs than this that one schedule's edit touches are a reason to pass over all."""


class Changes:
    """Reads what one tenant's planner must look at."""

    def __init__(self, pool: SessionPool) -> None:
        dialect = pool.dialect
        self._pool = pool
        self._dialect = dialect
        inputs, digest = planning_inputs(dialect), message_digest(dialect)
        # The order of the cases: what an enabled job lacks most comes first. ELSE '' is what WHERE leaves out.
        kind = f"""CASE WHEN NOT p.enabled THEN CASE WHEN s.inputs <> '' THEN 'disabled' ELSE '' END
            WHEN s.job_id IS NULL OR s.inputs = '' THEN 'new'
            WHEN s.inputs_format <> {FORMAT} THEN 'reformatted'
            WHEN {dialect.differs("s.inputs", inputs)} THEN 'edited'
            WHEN s.error <> '' AND {dialect.differs("s.message_digest", digest)} THEN 'edited'
            WHEN s.error <> '' AND %(with_flagged)s THEN 'flagged'
            WHEN s.next_due_at_ms IS NOT NULL AND {run_by_other(dialect)} THEN 'run_by_other'
            WHEN p.one_off AND s.next_due_at_ms IS NULL AND s.last_due_at_ms IS NOT NULL AND s.error = ''
                AND NOT EXISTS (SELECT 1 FROM {OCCURRENCE} AS o WHERE o.job_id = p.id AND o.state = 'claimed')
                THEN 'finished'
            ELSE '' END"""
        latest_run = f"""CASE WHEN s.job_id IS NULL AND p.last_run_at IS NULL
            THEN (SELECT {dialect.instant_text("MAX(last_run_at)")} FROM {JOB}) END"""
        changed = f"""SELECT * FROM (
                SELECT {kind} AS kind, p.id AS job_id, {inputs} AS inputs, s.next_due_at_ms,
                    COALESCE(s.inputs, '') AS planned_inputs, {dialect.instant_text("p.last_run_at")} AS last_run_at,
                    p.total_run_count, {dialect.instant_text("p.date_changed")} AS date_changed,
                    {latest_run} AS latest_run_at, jp.jitter_s, p.args, p.kwargs, p.headers, {digest} AS message_digest,
                    COALESCE(s.error, '') AS error
                FROM {JOB_WITH_SCHEDULE} LEFT JOIN {STATE} AS s ON s.job_id = p.id
                LEFT JOIN {JOB_POLICY} AS jp ON jp.job_id = p.id
                WHERE {{}}
            ) AS changed WHERE kind <> '' ORDER BY job_id LIMIT %(limit)s"""
        orphans = f"""SELECT s.job_id, s.next_due_at_ms, s.inputs FROM {STATE} AS s
            LEFT JOIN {JOB} AS p ON p.id = s.job_id WHERE p.id IS NULL AND {{}} ORDER BY s.job_id LIMIT %(limit)s"""
        self._find_changes = changed.format("p.id > %(after)s")
        self._find_orphans = orphans.format("s.job_id > 0")
        self._find_noted_changes = changed.format(dialect.any_of("p.id", "job_ids"))
        self._find_noted_orphans = orphans.format(dialect.any_of("s.job_id", "job_ids"))
        notes = dialect.shared(EDIT)
        # Without a schema of its own the tenant has the database to itself.
        self._read_notes = f"""SELECT id, kind, row_id FROM {notes}
            WHERE %(schema)s = '' OR schema_name = %(schema)s ORDER BY id LIMIT %(limit)s"""
        self._find_sharers = {
            kind: f"SELECT id FROM {JOB} WHERE {dialect.any_of(f'{kind}_id', 'ids')} LIMIT {_MOST_JOBS + 1}"
            for kind in SCHEDULES
        }
        self._forget = f"DELETE FROM {notes} WHERE {dialect.any_of('id', 'ids')}"

    def on(self, pool: SessionPool) -> Changes:
        """Return the same statements on other sessions."""
        other = copy(self)
        other._pool = pool
        return other

    def find(self, *, after_job_id: int, limit: int, with_flagged: bool) -> Sequence[ChangedJob]:
        with self._pool.transaction(reading=True) as session:
            parameters = {
                "limit": limit,
                "after": after_job_id,
                "with_flagged": with_flagged,
            }
            changed = [_decode(row) for row in session.fetch(self._find_changes, parameters)]
            orphans = [] if len(changed) == limit else session.fetch(self._find_orphans, {"limit": limit})
        return [*changed, *(_decode_orphan(row) for row in orphans)]

    def find_noted(self, *, limit: int) -> NotedChanges:
        """Read notes, then the rows they name: an edit committed in between has a note of its own."""
        notes = self._pool.glance(self._read_notes, {"limit": limit, "schema": self._pool.schema})
        note_ids = [note_id for note_id, _, _ in notes]
        rows: defaultdict[str, set[int]] = defaultdict(set)
        for _, kind, row_id in notes:
            rows[kind].add(row_id)
        if not notes or "all" in rows:
            return NotedChanges(note_ids=note_ids, changes=(), everything=bool(notes))
        with self._pool.transaction(reading=True) as session:
            job_ids = self._find_jobs(session, rows)
            if len(job_ids) > _MOST_JOBS:
                return NotedChanges(note_ids=note_ids, changes=(), everything=True)
            changes = self._find_among(session, job_ids) if job_ids else ()
        return NotedChanges(note_ids=note_ids, changes=changes, everything=False)

    def forget(self, note_ids: Sequence[int]) -> None:
        with self._pool.transaction() as session:
            session.execute(self._forget, {"ids": self._dialect.id_list(note_ids)})

    def has_triggers(self) -> bool:
        return find_triggers(self._pool)

    def has_more_jobs_than(self, count: int) -> bool:
        sql = f"SELECT COUNT(*) FROM (SELECT 1 FROM {JOB} LIMIT %(limit)s) AS first_ones"
        ((found,),) = self._pool.glance(sql, {"limit": count + 1})
        return int(found) > count

    def _find_jobs(self, session: Session, rows: dict[str, set[int]]) -> set[int]:
        job_ids = set(rows.get("job", ()))
        for kind, sql in self._find_sharers.items():
            if rows.get(kind):
                job_ids.update(row[0] for row in session.fetch(sql, {"ids": self._dialect.id_list(rows[kind])}))
        return job_ids

    def _find_among(self, session: Session, job_ids: set[int]) -> Sequence[ChangedJob]:
        parameters = {
            "limit": len(job_ids),
            "job_ids": self._dialect.id_list(job_ids),
            "with_flagged": False,
        }
        changed = [_decode(row) for row in session.fetch(self._find_noted_changes, parameters)]
        return [*changed, *(_decode_orphan(row) for row in session.fetch(self._find_noted_orphans, parameters))]


def _decode_orphan(row: tuple[Any, ...]) -> ChangedJob:
    job_id, next_due_at_ms, inputs = row
    return ChangedJob(
        job_id=job_id,
        kind=ChangeKind.DELETED,
        inputs="",
        next_due_at_ms=next_due_at_ms,
        planned_inputs=inputs,
        last_run_at=None,
    )


def _decode(row: tuple[Any, ...]) -> ChangedJob:
    kind, job_id, inputs, next_due_at_ms, planned_inputs, last_run_at, *rest = row
    total_run_count, date_changed, latest_run_at, jitter_s, args, kwargs, headers, digest, error = rest
    return ChangedJob(
        job_id=job_id,
        kind=ChangeKind(kind),
        inputs=inputs,
        next_due_at_ms=next_due_at_ms,
        planned_inputs=planned_inputs,
        last_run_at=last_run_at,
        total_run_count=total_run_count,
        date_changed=date_changed,
        latest_run_at=latest_run_at,
        jitter_s=jitter_s or 0,
        args=args,
        kwargs=kwargs,
        headers=headers,
        message_digest=digest,
        error=error,
    )
