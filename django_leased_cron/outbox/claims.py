"""The claim: one transaction that proves the lease, decides what this term dispatches, and moves the plan.

Statements, in this order: the guard; what the rows say now (ids and verdicts only: a frozen client with unread rows
would keep the lock beyond every server timeout); inserts; advances; adoptions; ``owed_since_ms``; COMMIT. Definitions
are read after it. A handful of statements per batch, never per job; no schedule arithmetic, no broker call.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import Any

from django_leased_cron.core.database_clock import is_plausible
from django_leased_cron.core.occurrence import SkipReason
from django_leased_cron.core.outbox import (
    Adoption,
    Advance,
    ClaimedOccurrence,
    ClaimOrder,
    ClaimReply,
    JobMessage,
    TermLost,
    UnconfirmedClaim,
)
from django_leased_cron.core.schedule import reading_ms
from django_leased_cron.database.dialect import Dialect
from django_leased_cron.database.session import Session, SessionPool
from django_leased_cron.database.tables import JOB, JOB_POLICY, OCCURRENCE, STATE, TENANT_POLICY
from django_leased_cron.exceptions import CommitOutcomeUnknownError, DatabaseClockError, StoreError
from django_leased_cron.outbox.adoptions import AdoptionStatements
from django_leased_cron.outbox.guard import LeaseGuard
from django_leased_cron.outbox.job_rows import (
    SCHEDULE_JOINS,
    later_known_run,
    message_digest,
    planning_inputs,
    run_by_other,
)
from django_leased_cron.outbox.row_locks import RowLocks
from django_leased_cron.outbox.rows import claimed_row, encode_rows, insert_occurrences, skipped_row

_TO_PLANNER = "planner"
_UNPLANNING = frozenset({SkipReason.DELETED, SkipReason.DISABLED})

_ADVANCE = {
    "job_id": "integer",
    "planned_due_at_ms": "integer",
    "next_due_at_ms": "integer",
    "next_fire_at_ms": "integer",
    "last_due_at_ms": "integer",
    "known_run_at_ms": "integer",
    "keep_inputs": "integer",
}


@dataclass(slots=True)
class _Decision:
    """What one transaction has decided so far."""

    occurrences: list[dict[str, Any]] = field(default_factory=list)
    advances: list[dict[str, Any]] = field(default_factory=list)
    left_to_planner: list[int] = field(default_factory=list)


class ClaimTransaction:
    """Carries out claim orders for one tenant."""

    def __init__(
        self,
        pool: SessionPool,
        guard: LeaseGuard,
        adoptions: AdoptionStatements,
        *,
        storage_zone: tzinfo,
    ) -> None:
        dialect = pool.dialect
        self._pool = pool
        self._guard = guard
        self._dialect = dialect
        self._storage_zone = storage_zone
        self._adoptions = adoptions
        now = dialect.now_ms
        self._read_clock = f"""SELECT {now}, (SELECT COUNT(*) FROM {TENANT_POLICY}
            WHERE tenant_key = %(tenant_key)s AND paused AND COALESCE(paused_until_ms, {now} + 1) > {now})"""
        self._examine = _examine(dialect)
        self._insert = insert_occurrences(dialect)
        # Names the plan it replaces; only guarded transactions write plans, so the row is as the window read it or
        # as this term's own later write left it.
        self._advance = dialect.update_from(
            STATE,
            rows=dialect.rows("rows", _ADVANCE, alias="r"),
            assignments={
                "next_due_at_ms": "r.next_due_at_ms",
                "fire_at_ms": "r.next_fire_at_ms",
                "last_due_at_ms": "COALESCE(r.last_due_at_ms, t.last_due_at_ms)",
                "known_run_at_ms": later_known_run("r.known_run_at_ms"),
                "inputs": "CASE WHEN r.keep_inputs = 1 THEN t.inputs ELSE '' END",
            },
            where="t.job_id = r.job_id AND t.next_due_at_ms = r.planned_due_at_ms",
        )
        # A person's wish, taken once: whoever else takes it first leaves no row in this state. Somebody who has it
        # locked must not stop the tenant (P2).
        self._requests = RowLocks(dialect, OCCURRENCE)
        self._take_requested = f"""UPDATE {OCCURRENCE}
            SET state = 'claimed', epoch = %(epoch)s, attempt = 1, claimed_at_ms = %(now_ms)s
            WHERE state = 'requested' AND {dialect.any_of("id", "ids")}"""
        # The confirm will set their jobs' last_run_at to this claim's time, which is ours and no other scheduler's.
        self._note_runs = f"""UPDATE {STATE} AS t
            SET known_run_at_ms = {later_known_run("%(known_run_at_ms)s")} WHERE job_id IN (
            SELECT o.job_id FROM {OCCURRENCE} AS o
            WHERE o.state = 'claimed' AND o.epoch = %(epoch)s AND o.claimed_at_ms = %(now_ms)s)"""
        # After COMMIT. A row of this epoch that is not in hand is new: its claim time is this transaction's.
        self._read_claimed = f"""SELECT o.id, o.epoch, o.attempt, o.job_id, o.due_at_ms, o.task_id, o.delivery,
            o.claimed_at_ms, p.id, p.name, p.task, p.args, p.kwargs, p.headers, p.queue, p.exchange, p.routing_key,
            p.priority, {dialect.instant_text("p.expires")}, p.expire_seconds, {message_digest(dialect)},
            {_finishes(dialect)}
            FROM {OCCURRENCE} AS o LEFT JOIN {JOB} AS p ON p.id = o.job_id
            WHERE o.state = 'claimed' AND o.epoch = %(epoch)s AND o.claimed_at_ms = %(now_ms)s
            ORDER BY o.due_at_ms, o.id"""

    def on(self, pool: SessionPool) -> ClaimTransaction:
        """Return the same statements on other sessions."""
        other = copy(self)
        other._pool = pool
        return other

    def run(self, order: ClaimOrder) -> ClaimReply | TermLost:
        with self._pool.borrow() as session:
            with session.transaction():
                if not self._guard.hold(session, order.term):
                    return TermLost()
                reply = self._decide(session, order)
            try:
                rows = session.glance(self._read_claimed, {"epoch": order.term.epoch, "now_ms": reply.now_ms})
            except StoreError as exc:
                # The claim stands, and nobody has it in hand: as if the reply to COMMIT had been lost (A4).
                raise CommitOutcomeUnknownError(exc.alias, f"claimed, then unreadable: {exc.detail}") from exc
        claimed = [_decode(row) for row in rows]
        return replace(reply, claimed=[c for c in claimed if _name(c.claim) not in order.in_hand])

    def _decide(self, session: Session, order: ClaimOrder) -> ClaimReply:
        term = order.term
        ((now_ms, pauses),) = session.fetch(self._read_clock, {"tenant_key": term.tenant_key})
        if not is_plausible(now_ms):
            raise DatabaseClockError(session.alias, now_ms)
        adoptions, complete = self._with_read_back(session, order)
        decision = self._examine_due(session, order.advances, now_ms=now_ms, epoch=term.epoch, paused=bool(pauses))
        if decision.occurrences:
            session.execute(self._insert, {"rows": encode_rows(decision.occurrences)})
        if decision.advances:
            session.execute(self._advance, {"rows": encode_rows(decision.advances)})
        locked_requests: Collection[int] = ()
        if order.requested:
            taken = self._requests.take(session, order.requested)
            locked_requests = taken.locked
            if taken.free:
                ids = self._dialect.id_list(taken.free)
                session.execute(self._take_requested, {"epoch": term.epoch, "now_ms": now_ms, "ids": ids})
        locked: Collection[int] = ()
        if adoptions:
            locked = self._adoptions.run(session, adoptions, epoch=term.epoch, now_ms=now_ms)
        if order.requested or adoptions:
            known_run_at_ms = reading_ms(now_ms, storage_zone=self._storage_zone)
            parameters = {"epoch": term.epoch, "now_ms": now_ms, "known_run_at_ms": known_run_at_ms}
            session.execute(self._note_runs, parameters)
        self._guard.move_owed(session, term, predecessors_adoptable_in_ms=order.predecessors_adoptable_in_ms)
        return ClaimReply(
            now_ms=now_ms,
            claimed=(),
            locked=frozenset((*locked, *locked_requests)),
            left_to_planner=decision.left_to_planner,
            # What was locked when it was read back is in nobody's hands yet.
            read_back_complete=complete and not locked,
        )

    def _with_read_back(self, session: Session, order: ClaimOrder) -> tuple[Sequence[Adoption], bool]:
        """Add what a lost reply left behind (A4): only now, under the lock, is that transaction's outcome decided."""
        if not order.read_back:
            return order.adoptions, True
        found = self._adoptions.read_own(session, epoch=order.term.epoch, limit=order.adopt_limit + len(order.in_hand))
        # By id *and* attempt: what was lost may be the reply to an adoption, whose old attempt is asked for again.
        unknown = [claim for claim in found if _name(claim) not in order.in_hand]
        taken = unknown[: order.adopt_limit]
        adoptions = [*order.adoptions, *(Adoption(claim=claim, never_started=True) for claim in taken)]
        return adoptions, len(taken) == len(unknown) and len(found) < order.adopt_limit + len(order.in_hand)

    def _examine_due(
        self, session: Session, advances: Sequence[Advance], *, now_ms: int, epoch: int, paused: bool
    ) -> _Decision:
        decision = _Decision()
        if not advances:
            return decision
        by_job = {advance.job_id: advance for advance in advances}
        parameters = {
            "job_ids": self._dialect.id_list(by_job),
            "now_ms": now_ms,
        }
        known_run_at_ms = reading_ms(now_ms, storage_zone=self._storage_zone)
        for job_id, next_due_at_ms, fire_at_ms, verdict in session.fetch(self._examine, parameters):
            advance = by_job[job_id]
            if next_due_at_ms != advance.planned_due_at_ms or fire_at_ms > now_ms:
                continue  # planned anew since the window was read, or not due yet by the clock that counts
            if verdict == _TO_PLANNER:
                decision.left_to_planner.append(job_id)
                continue
            reason = SkipReason(verdict) if verdict else SkipReason.PAUSED if paused else None
            _apply(decision, advance, reason, now_ms=now_ms, known_run_at_ms=known_run_at_ms, epoch=epoch)
        return decision


def _examine(dialect: Dialect) -> str:
    """Return statement (b): what the rows of due jobs say now.

    Its snapshot is newer than the lock: an edit committed before the lock was granted is seen here (I5). COALESCE where
    a policy is mostly missing: after a NULL the other side of AND is evaluated too, a look at the outbox for every job.
    """
    return f"""SELECT s.job_id, s.next_due_at_ms, s.fire_at_ms,
        CASE WHEN p.id IS NULL THEN 'deleted'
            WHEN NOT p.enabled THEN 'disabled'
            WHEN {dialect.differs("s.inputs", planning_inputs(dialect))} THEN '{_TO_PLANNER}'
            WHEN {run_by_other(dialect)} THEN '{_TO_PLANNER}'
            WHEN jp.paused AND COALESCE(jp.paused_until_ms, %(now_ms)s + 1) > %(now_ms)s THEN 'paused'
            WHEN COALESCE(jp.overlap, '') = 'skip' AND EXISTS (
                SELECT 1 FROM {OCCURRENCE} AS o WHERE o.job_id = s.job_id
                AND o.state IN ('claimed', 'sent', 'running')
                AND (%(now_ms)s - COALESCE(o.started_at_ms, o.claimed_at_ms)) / 1000 < jp.longest_run_s
            ) THEN 'overlap'
            ELSE '' END
        FROM {STATE} AS s LEFT JOIN {JOB} AS p ON p.id = s.job_id {SCHEDULE_JOINS}
        LEFT JOIN {JOB_POLICY} AS jp ON jp.job_id = s.job_id
        WHERE {dialect.any_of("s.job_id", "job_ids")}"""


def _finishes(dialect: Dialect) -> str:
    """Return whether a claimed job is a one-off that has nothing planned after this.

    Not one that was edited meanwhile: it is about to be planned anew, and must not be switched off before. The subquery
    is for one-offs alone, so that nobody else's claim pays for the joins.
    """
    return f"""CASE WHEN p.one_off THEN (
            SELECT COUNT(*) FROM {STATE} AS s {SCHEDULE_JOINS}
            WHERE s.job_id = p.id AND s.next_due_at_ms IS NULL AND s.last_due_at_ms IS NOT NULL AND s.error = ''
            AND NOT ({dialect.differs("s.inputs", planning_inputs(dialect))})
        ) ELSE 0 END"""


def _apply(
    decision: _Decision,
    advance: Advance,
    reason: SkipReason | None,
    *,
    now_ms: int,
    known_run_at_ms: int,
    epoch: int,
) -> None:
    """Turn one advance into rows; with a reason, all its slots are skipped."""
    job_id = advance.job_id
    unplanned = reason in _UNPLANNING
    for fire in advance.fires:
        row = (
            claimed_row(
                job_id,
                due_at_ms=fire.due_at_ms,
                epoch=epoch,
                task_id=fire.task_id,
                delivery=advance.delivery,
                claimed_at_ms=now_ms,
            )
            if reason is None
            else skipped_row(job_id, due_at_ms=fire.due_at_ms, epoch=epoch, reason=reason)
        )
        decision.occurrences.append(row)
    decision.occurrences.extend(
        skipped_row(
            job_id,
            due_at_ms=stretch.last_due_at_ms,
            first_due_at_ms=stretch.first_due_at_ms,
            slots=stretch.slots,
            reason=stretch.reason,
            epoch=epoch,
        )
        for stretch in advance.skipped
    )
    slots = [fire.due_at_ms for fire in advance.fires] + [stretch.last_due_at_ms for stretch in advance.skipped]
    decision.advances.append(
        {
            "job_id": job_id,
            "planned_due_at_ms": advance.planned_due_at_ms,
            "next_due_at_ms": None if unplanned else advance.next_due_at_ms,
            "next_fire_at_ms": None if unplanned else advance.next_fire_at_ms,
            "last_due_at_ms": max(slots, default=None),
            "known_run_at_ms": known_run_at_ms if advance.fires and reason is None else None,
            "keep_inputs": 0 if unplanned else 1,
        }
    )


def _name(claim: UnconfirmedClaim) -> tuple[int, int]:
    return claim.occurrence_id, claim.attempt


def _decode(row: tuple[Any, ...]) -> ClaimedOccurrence:
    occurrence_id, epoch, attempt, job_id, due_at_ms, task_id, delivery, claimed_at_ms, found, *columns, finishes = row
    return ClaimedOccurrence(
        claim=UnconfirmedClaim(occurrence_id=occurrence_id, epoch=epoch, attempt=attempt),
        job_id=job_id,
        due_at_ms=due_at_ms,
        task_id=task_id,
        at_most_once=delivery == "at_most_once",
        claimed_at_ms=claimed_at_ms,
        message=None if found is None else JobMessage(**dict(zip(JobMessage.__slots__, columns, strict=True))),
        finishes=bool(finishes),
    )
