"""Adoption: claiming anew what an earlier term, or this one, claimed and did not confirm (A1, A4, A6, A7)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from django_leased_cron.core.occurrence import CatchUp, Delivery, OccurrenceState, SkipReason
from django_leased_cron.core.outbox import Adoption, UnconfirmedClaim
from django_leased_cron.database.dialect import Dialect
from django_leased_cron.database.session import Session, SessionPool
from django_leased_cron.database.tables import JOB, JOB_POLICY, OCCURRENCE
from django_leased_cron.outbox.row_locks import RowLocks
from django_leased_cron.outbox.rows import encode_rows

_CLAIM = {"id": "integer", "epoch": "integer", "attempt": "integer"}
# A1: the conditions name the row that is changed. Chosen by id in a subquery, a row that a confirm had locked would
# be changed after the wait, and what was sent would be published again.
_SAME_CLAIM = "t.id = r.id AND t.epoch = r.epoch AND t.attempt = r.attempt AND t.state = 'claimed'"


class AdoptionStatements:
    """The part of a claim transaction that settles unconfirmed claims; always after the guard."""

    def __init__(self, dialect: Dialect, *, catch_up: CatchUp, missed_after_ms: int) -> None:
        self._dialect = dialect
        self._locks = RowLocks(dialect, OCCURRENCE)
        self._catch_up = catch_up
        self._missed_after_ms = missed_after_ms
        unconfirmed = f"SELECT id, epoch, attempt FROM {OCCURRENCE} WHERE state = 'claimed' AND epoch"
        self._read_own = f"{unconfirmed} = %(epoch)s ORDER BY due_at_ms, id LIMIT %(limit)s"
        self._read_predecessors = f"{unconfirmed} < %(epoch)s ORDER BY due_at_ms, id LIMIT %(limit)s"
        # Superseded only what was missed when it was claimed: whatever is less late is dispatched, after a failover or
        # an outage too (I3). An adoption moves the time of the claim, so later attempts tell nothing of that.
        self._examine = f"""SELECT o.id, o.epoch, o.attempt, o.delivery,
            CASE WHEN p.id IS NULL THEN 'deleted' WHEN NOT p.enabled THEN 'disabled'
                WHEN o.attempt = 1 AND o.claimed_at_ms - o.due_at_ms > %(missed_after_ms)s
                AND COALESCE(NULLIF(jp.catch_up, ''), %(catch_up)s) <> 'all' AND EXISTS (
                    SELECT 1 FROM {OCCURRENCE} AS n WHERE n.job_id = o.job_id AND n.due_at_ms > o.due_at_ms
                    AND n.state IN ('claimed', 'sent', 'running', 'succeeded', 'failed')
                ) THEN 'superseded' ELSE '' END
            FROM {OCCURRENCE} AS o LEFT JOIN {JOB} AS p ON p.id = o.job_id
            LEFT JOIN {JOB_POLICY} AS jp ON jp.job_id = o.job_id
            WHERE o.state = 'claimed' AND {dialect.any_of("o.id", "ids")}"""
        self._adopt = dialect.update_from(
            OCCURRENCE,
            rows=dialect.rows("rows", _CLAIM, alias="r"),
            assignments={"epoch": "%(epoch)s", "attempt": "t.attempt + 1", "claimed_at_ms": "%(now_ms)s"},
            where=_SAME_CLAIM,
        )
        # Epoch and attempt stay: whoever published this attempt may still confirm it (A7, P2).
        self._settle = dialect.update_from(
            OCCURRENCE,
            rows=dialect.rows("rows", _CLAIM | {"state": "text", "reason": "text"}, alias="r"),
            assignments={"state": "r.state", "reason": "r.reason"},
            where=_SAME_CLAIM,
        )

    def read_own(self, session: Session, *, epoch: int, limit: int) -> Sequence[UnconfirmedClaim]:
        """Read this epoch's unconfirmed claims."""
        return _as_claims(session.fetch(self._read_own, {"epoch": epoch, "limit": limit}))

    def read_predecessors(self, pool: SessionPool, *, epoch: int, limit: int) -> Sequence[UnconfirmedClaim]:
        """Read earlier epochs' unconfirmed claims; none can be added once this epoch exists (I2)."""
        return _as_claims(pool.glance(self._read_predecessors, {"epoch": epoch, "limit": limit}))

    def run(self, session: Session, adoptions: Sequence[Adoption], *, epoch: int, now_ms: int) -> Collection[int]:
        """Adopt, skip or give up each, from the job's row as it is now; return the ids of those that are locked."""
        asked = {_name(adoption.claim): adoption for adoption in adoptions}
        taken = self._locks.take(session, {adoption.claim.occurrence_id for adoption in adoptions})
        if not taken.free:
            return taken.locked
        ids = self._dialect.id_list(taken.free)
        adopted: list[dict[str, Any]] = []
        settled: list[dict[str, Any]] = []
        parameters = {"ids": ids, "catch_up": self._catch_up, "missed_after_ms": self._missed_after_ms}
        for *name, delivery, verdict in session.fetch(self._examine, parameters):
            adoption = asked.get((name[0], name[1], name[2]))
            if adoption is None:
                continue  # another attempt than the one asked for: somebody else's by now
            row = dict(zip(_CLAIM, name, strict=True))
            outcome = _decide(adoption, verdict, at_most_once=delivery == Delivery.AT_MOST_ONCE, epoch=epoch)
            if outcome is None:
                adopted.append(row)
            else:
                state, reason = outcome
                settled.append(row | {"state": state, "reason": reason})
        if adopted:
            parameters = {"rows": encode_rows(adopted), "epoch": epoch, "now_ms": now_ms}
            session.execute(self._adopt, parameters)
        if settled:
            session.execute(self._settle, {"rows": encode_rows(settled)})
        return taken.locked


def _as_claims(rows: Sequence[tuple[Any, ...]]) -> Sequence[UnconfirmedClaim]:
    return [UnconfirmedClaim(occurrence_id=row[0], epoch=row[1], attempt=row[2]) for row in rows]


def _decide(adoption: Adoption, verdict: str, *, at_most_once: bool, epoch: int) -> tuple[OccurrenceState, str] | None:
    """Return what to record instead of adopting; ``None``: adopt (A6, A7)."""
    predecessors = adoption.claim.epoch < epoch
    if verdict == "deleted":
        return OccurrenceState.SKIPPED, SkipReason.DELETED
    if verdict == "disabled":
        if adoption.never_started and adoption.claim.attempt == 1:
            return OccurrenceState.SKIPPED, SkipReason.DISABLED
        return OccurrenceState.UNCERTAIN, "edited: the job was disabled before this could be confirmed"
    if at_most_once and not adoption.never_started:
        return OccurrenceState.UNCERTAIN, "at most once: it may have been published, and is not tried again"
    if verdict == "superseded" and predecessors:
        return OccurrenceState.UNCERTAIN, "superseded: a later occurrence of the job is claimed already"
    return None


def _name(claim: UnconfirmedClaim) -> tuple[int, int, int]:
    return claim.occurrence_id, claim.epoch, claim.attempt
