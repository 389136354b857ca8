"""The plan and the outbox of a tenant in its database: the adapter behind ``core.outbox.Outbox``.

One shape of SQL for all vendors, with the fragments of ``database`` where they differ. ``guard.py`` is the first
statement of everything; ``claims.py``, ``adoptions.py``, ``confirms.py`` and ``plans.py`` are what comes after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connections
from django.utils import timezone

from django_leased_cron.core.occurrence import CatchUp
from django_leased_cron.core.outbox import (
    ChangedJob,
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
from django_leased_cron.core.planning_inputs import FORMAT
from django_leased_cron.database import find_storage_zone
from django_leased_cron.database.session import SessionPool
from django_leased_cron.database.tables import JOB_POLICY, OCCURRENCE, STATE
from django_leased_cron.outbox.adoptions import AdoptionStatements
from django_leased_cron.outbox.changes import Changes
from django_leased_cron.outbox.claims import ClaimTransaction
from django_leased_cron.outbox.confirms import Confirmation
from django_leased_cron.outbox.guard import LeaseGuard
from django_leased_cron.outbox.plans import Plans


class DatabaseOutbox:
    """One tenant's outbox, in the database of one alias."""

    def __init__(self, pool: SessionPool, *, lease_ttl_ms: int, missed_after_ms: int, catch_up: CatchUp) -> None:
        guard = LeaseGuard(pool.dialect, lease_ttl_ms=lease_ttl_ms)
        self._pool = pool
        self._adoptions = AdoptionStatements(pool.dialect, catch_up=catch_up, missed_after_ms=missed_after_ms)
        self._claims = ClaimTransaction(pool, guard, self._adoptions, storage_zone=find_storage_zone(pool.alias))
        self._confirms = Confirmation(pool, guard, stored_instant=self._stored_instant)
        self._changes = Changes(pool)
        self._plans = Plans(pool, guard)
        planned = f"""SELECT s.job_id, s.next_due_at_ms, s.fire_at_ms, s.inputs, COALESCE(jp.catch_up, '') AS catch_up,
            jp.catch_up_window_s, jp.jitter_s, COALESCE(jp.delivery, '') AS delivery,
            COALESCE(jp.overlap, '') AS overlap_policy
            FROM {STATE} AS s LEFT JOIN {JOB_POLICY} AS jp ON jp.job_id = s.job_id
            WHERE s.fire_at_ms IS NOT NULL AND s.inputs_format = {FORMAT}
            ORDER BY s.fire_at_ms, s.job_id LIMIT %(limit)s"""
        self._read_planned = f"""SELECT clock.now_ms, planned.* FROM (SELECT {pool.dialect.now_ms} AS now_ms) AS clock
            LEFT JOIN ({planned}) AS planned ON 1 = 1 ORDER BY planned.fire_at_ms, planned.job_id"""
        self._read_requested = f"""SELECT id FROM {OCCURRENCE} WHERE state = 'requested'
            ORDER BY due_at_ms, id LIMIT %(limit)s"""

    def of_schema(self, schema: str) -> DatabaseOutbox:
        """Return the outbox of another tenant in this database; its statements are the same ones, kept once."""
        outbox = copy(self)
        outbox._pool = pool = self._pool.in_schema(schema)
        outbox._claims, outbox._confirms = self._claims.on(pool), self._confirms.on(pool)
        outbox._changes, outbox._plans = self._changes.on(pool), self._plans.on(pool)
        return outbox

    def read_window(self, limit: int) -> Window:
        with self._pool.borrow() as session:
            rows = session.glance(self._read_planned, {"limit": limit})
            requested = [row[0] for row in session.glance(self._read_requested, {"limit": limit})]
        # One row at least, for the clock.
        jobs = [_decode(columns) for _, *columns in rows if columns[0] is not None]
        return Window(now_ms=rows[0][0], jobs=jobs, requested=requested)

    def read_predecessors(self, *, epoch: int, limit: int) -> Sequence[UnconfirmedClaim]:
        return self._adoptions.read_predecessors(self._pool, epoch=epoch, limit=limit)

    def claim(self, order: ClaimOrder) -> ClaimReply | TermLost:
        return self._claims.run(order)

    def confirm(
        self, settlements: Sequence[Settlement], *, term: TermKey, predecessors_adoptable_in_ms: int | None
    ) -> Sequence[Settlement]:
        return self._confirms.confirm(settlements, term, predecessors_adoptable_in_ms=predecessors_adoptable_in_ms)

    def record_runs(self, runs: Sequence[JobRun]) -> Sequence[JobRun]:
        return self._confirms.record_runs(runs)

    def find_changes(self, *, after_job_id: int, limit: int, with_flagged: bool = False) -> Sequence[ChangedJob]:
        return self._changes.find(after_job_id=after_job_id, limit=limit, with_flagged=with_flagged)

    def find_noted_changes(self, *, limit: int) -> NotedChanges:
        return self._changes.find_noted(limit=limit)

    def forget_notes(self, note_ids: Sequence[int]) -> None:
        self._changes.forget(note_ids)

    def has_edit_triggers(self) -> bool:
        return self._changes.has_triggers()

    def has_more_jobs_than(self, count: int) -> bool:
        return self._changes.has_more_jobs_than(count)

    def write_plans(
        self, writes: Sequence[PlanWrite], *, term: TermKey, predecessors_adoptable_in_ms: int | None
    ) -> TermLost | None:
        return self._plans.write(writes, term, predecessors_adoptable_in_ms=predecessors_adoptable_in_ms)

    def purge(self, *, older_than_ms: int, limit: int) -> int:
        return self._plans.purge(older_than_ms=older_than_ms, limit=limit)

    def close(self) -> None:
        self._pool.close()

    def _stored_instant(self, at_ms: int) -> Any:
        """Return an instant the way Django stores one in this database."""
        at = datetime.fromtimestamp(at_ms // 1000, UTC) + timedelta(milliseconds=at_ms % 1000)
        connection = connections[self._pool.alias]
        # Not where the column knows instants: of a local time that the clocks repeat it would take the later one.
        if connection.timezone is None and find_storage_zone(self._pool.alias) is not UTC:
            at = timezone.make_naive(at, timezone.get_default_timezone())
        return connection.ops.adapt_datetimefield_value(at)


def _decode(row: Sequence[Any]) -> PlannedJob:
    job_id, next_due_at_ms, fire_at_ms, inputs, catch_up, catch_up_window_s, jitter_s, delivery, overlap = row
    return PlannedJob(
        job_id=job_id,
        next_due_at_ms=next_due_at_ms,
        fire_at_ms=fire_at_ms,
        inputs=inputs,
        catch_up=catch_up,
        catch_up_window_s=catch_up_window_s,
        jitter_s=jitter_s or 0,
        delivery=delivery,
        overlap=overlap,
    )
