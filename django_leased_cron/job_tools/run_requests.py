"""Asking for a run now: an occurrence that the holder claims like any other.

So it is sent with all that a scheduled firing is sent with (expiry, priority, headers, routing), and stands in the
history beside the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from django_leased_cron.conf import get_settings
from django_leased_cron.core.occurrence import OccurrenceState, build_task_id
from django_leased_cron.database.session import Session
from django_leased_cron.database.tables import JOB, JOB_POLICY, OCCURRENCE, STATE
from django_leased_cron.job_tools.tenant_sessions import open_sessions, read_clock
from django_leased_cron.outbox.rows import encode_rows, insert_occurrences
from django_leased_cron.tenants import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedRun:
    """A run that was asked for, and the id that its task will have."""

    tenant: str
    job: str
    due_at_ms: int
    task_id: str


def request_runs(tenant: Tenant, job_ids: Collection[int]) -> Sequence[RequestedRun]:
    """Ask for one run of each job, all or none; a job that is gone by now is left out.

    Raises:
        StoreError: nothing was asked for or, where COMMIT was not answered, perhaps all.
    """
    if not job_ids:
        return []
    delivery = str(get_settings().delivery)
    with open_sessions(tenant) as pool, pool.transaction() as session:
        now_ms = read_clock(session)
        rows: list[dict[str, Any]] = []
        runs: list[RequestedRun] = []
        taken = _find_taken(session, job_ids, now_ms=now_ms)
        for job_id, name, own_delivery in _read_jobs(session, job_ids):
            due_at_ms = next(at_ms for at_ms in count(now_ms) if at_ms not in taken[job_id])
            task_id = build_task_id(tenant_key=tenant.key, job_id=job_id, due_at_ms=due_at_ms)
            rows.append(_build_row(job_id, due_at_ms, task_id=task_id, delivery=own_delivery or delivery))
            runs.append(RequestedRun(tenant=tenant.key, job=name, due_at_ms=due_at_ms, task_id=task_id))
        session.execute(insert_occurrences(pool.dialect), {"rows": encode_rows(rows)})
    return runs


def _read_jobs(session: Session, job_ids: Collection[int]) -> Sequence[tuple[int, str, str | None]]:
    found = session.fetch(
        f"""SELECT p.id, p.name, jp.delivery FROM {JOB} AS p LEFT JOIN {JOB_POLICY} AS jp ON jp.job_id = p.id
            WHERE {session.dialect.any_of("p.id", "ids")}""",
        {"ids": session.dialect.id_list(job_ids)},
    )
    return sorted(found, key=lambda row: row[1])


def _find_taken(session: Session, job_ids: Collection[int], *, now_ms: int) -> Mapping[int, set[int]]:
    """Return the due times from now on that are not free: each is one occurrence, whoever wants it (I4)."""
    chosen = session.dialect.any_of("job_id", "ids")
    taken: defaultdict[int, set[int]] = defaultdict(set)
    for job_id, due_at_ms in session.fetch(
        f"""SELECT job_id, due_at_ms FROM {OCCURRENCE} WHERE {chosen} AND due_at_ms >= %(now_ms)s
            UNION ALL SELECT job_id, next_due_at_ms FROM {STATE} WHERE {chosen} AND next_due_at_ms >= %(now_ms)s""",
        {"ids": session.dialect.id_list(job_ids), "now_ms": now_ms},
    ):
        taken[job_id].add(due_at_ms)
    return taken


def _build_row(job_id: int, due_at_ms: int, *, task_id: str, delivery: str) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "due_at_ms": due_at_ms,
        "slots": 1,
        "state": OccurrenceState.REQUESTED,
        "reason": "",
        "epoch": 0,
        "attempt": 0,
        "task_id": task_id,
        "delivery": delivery,
    }
