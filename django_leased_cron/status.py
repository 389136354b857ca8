"""Who schedules what, since when, and what is late: the answer of ``leased_scheduler_status``.

Read over a connection of our own, with deadlines: a probe must not hang where a database does. What is live and what
is overdue is decided by the clock of the database that keeps the row.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Final

from django_leased_cron.core.database_clock import is_plausible
from django_leased_cron.core.lease import FREE
from django_leased_cron.database import build_dialect
from django_leased_cron.database.session import Session
from django_leased_cron.database.tables import JOB, LEASE, OCCURRENCE, PROCESS, STATE, TENANT_POLICY
from django_leased_cron.edit_triggers import find_triggers
from django_leased_cron.exceptions import DatabaseClockError, StoreError
from django_leased_cron.tenants import Tenant

_LEASE: Final = ("holder_id", "epoch", "acquired_at_ms", "expires_at_ms")
_READ_LEASE: Final = f"SELECT {', '.join(_LEASE)} FROM {{lease}} WHERE tenant_key = %(tenant_key)s"
_PROCESS: Final = ("holder_id", "host", "pid", "version", "started_at_ms", "last_seen_at_ms")
_READ_PROCESSES: Final = f"SELECT {', '.join(_PROCESS)}, draining, tenants FROM {{process}}"
# Overdue is what is still planned for the past: a claim moves the plan on. By the index on (fire_at_ms, job_id).
_WORK: Final = {
    "jobs": f"SELECT COUNT(*) FROM {JOB}",
    "next_due_at_ms": f"""SELECT next_due_at_ms FROM {STATE} WHERE fire_at_ms IS NOT NULL
        ORDER BY fire_at_ms, job_id LIMIT 1""",
    "overdue": f"SELECT COUNT(*) FROM {STATE} WHERE fire_at_ms < %(now_ms)s",
    "oldest_fire_at_ms": f"SELECT MIN(fire_at_ms) FROM {STATE}",
    "unconfirmed": f"SELECT COUNT(*) FROM {OCCURRENCE} WHERE state = 'claimed'",
    "pauses": f"""SELECT COUNT(*) FROM {TENANT_POLICY} WHERE tenant_key = %(tenant_key)s AND paused
        AND COALESCE(paused_until_ms, %(now_ms)s + 1) > %(now_ms)s""",
}
_MANY_JOBS: Final = 20_000
"""Up to so many are passed over as often as the promise wants it, see ``supervision/planner.py``."""
_READ_WORK: Final = f"SELECT {', '.join(f'({figure})' for figure in _WORK.values())}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    """A supervisor process as it last reported itself; ``tenants`` empty: it takes all of them."""

    holder_id: str
    host: str
    pid: int
    version: str
    started_at_ms: int
    last_seen_at_ms: int
    draining: bool
    tenants: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a tenant's database said at one moment of its clock."""

    now_ms: int
    holder_id: str = FREE
    epoch: int = 0
    acquired_at_ms: int = 0
    expires_at_ms: int = 0
    jobs: int = 0
    next_due_at_ms: int | None = None
    overdue: int = 0
    oldest_fire_at_ms: int | None = None
    unconfirmed: int = 0
    pauses: int = 0
    has_edit_triggers: bool = True
    processes: Sequence[ProcessStatus] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantStatus:
    """One tenant. ``live``: its lease has not expired and its holder's process was seen within ``LEASE_TTL``."""

    tenant: str
    holder_id: str
    live: bool
    epoch: int
    acquired_at_ms: int | None
    expires_in_s: float | None
    """Negative: expired; ``None``: nobody holds it."""
    paused: bool
    jobs: int
    next_due_at_ms: int | None
    overdue: int
    max_overdue_s: float
    unconfirmed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """All tenants whose databases answered, and the processes that are alive."""

    now_ms: int
    tenants: Sequence[TenantStatus]
    processes: Sequence[ProcessStatus]
    unreadable: Sequence[str]
    """A sentence for each tenant whose database did not answer."""
    slowly_edited: Sequence[str] = ()
    """A sentence for each tenant whose edits are not noted by triggers."""


def is_seen(last_seen_at_ms: int | None, *, now_ms: int, lease_ttl_ms: int) -> bool:
    """Return whether a process reported itself within ``LEASE_TTL``."""
    return last_seen_at_ms is not None and now_ms - last_seen_at_ms <= lease_ttl_ms


def is_live(*, expires_at_ms: int, last_seen_at_ms: int | None, now_ms: int, lease_ttl_ms: int) -> bool:
    """Return whether a lease has a live holder: unexpired, and the holder's process seen."""
    return expires_at_ms > now_ms and is_seen(last_seen_at_ms, now_ms=now_ms, lease_ttl_ms=lease_ttl_ms)


def read_status(tenants: Sequence[Tenant], *, lease_ttl_ms: int) -> Status:
    """Ask each tenant's database, over one connection each; one that does not answer hides none of the others."""
    with ExitStack() as cleanup:
        sessions: dict[str, Session] = {}
        for alias in {tenant.alias for tenant in tenants}:
            sessions[alias] = cleanup.enter_context(closing(Session(alias, build_dialect(alias))))
        return _read_status(tenants, sessions, lease_ttl_ms=lease_ttl_ms)


def _read_status(tenants: Iterable[Tenant], sessions: Mapping[str, Session], *, lease_ttl_ms: int) -> Status:
    statuses: list[TenantStatus] = []
    readings: list[Reading] = []
    unreadable: list[str] = []
    slowly_edited: list[str] = []
    for tenant in tenants:
        try:
            reading = _read_tenant(tenant, sessions[tenant.alias])
        except StoreError as exc:
            unreadable.append(f"Tenant {tenant.key!r}: {exc}")
            continue
        readings.append(reading)
        statuses.append(assess(tenant.key, reading, lease_ttl_ms=lease_ttl_ms))
        if reading.jobs and not reading.has_edit_triggers:
            slowly_edited.append(_explain_passes(tenant, reading.jobs))
    return Status(
        # Without a database to ask, this machine's clock.
        now_ms=max((reading.now_ms for reading in readings), default=round(time.time() * 1000)),
        tenants=statuses,
        processes=_find_live(readings, lease_ttl_ms=lease_ttl_ms),
        unreadable=unreadable,
        slowly_edited=slowly_edited,
    )


def assess(tenant_key: str, reading: Reading, *, lease_ttl_ms: int) -> TenantStatus:
    """Return what a reading means."""
    now_ms = reading.now_ms
    is_held = reading.holder_id != FREE
    seen_at_ms = {process.holder_id: process.last_seen_at_ms for process in reading.processes}
    oldest_ms = now_ms if reading.oldest_fire_at_ms is None else reading.oldest_fire_at_ms
    return TenantStatus(
        tenant=tenant_key,
        holder_id=reading.holder_id,
        live=is_live(
            expires_at_ms=reading.expires_at_ms,
            last_seen_at_ms=seen_at_ms.get(reading.holder_id),
            now_ms=now_ms,
            lease_ttl_ms=lease_ttl_ms,
        ),
        epoch=reading.epoch,
        acquired_at_ms=reading.acquired_at_ms if is_held else None,
        expires_in_s=(reading.expires_at_ms - now_ms) / 1000 if is_held else None,
        paused=reading.pauses > 0,
        jobs=reading.jobs,
        next_due_at_ms=reading.next_due_at_ms,
        overdue=reading.overdue,
        max_overdue_s=max(0, now_ms - oldest_ms) / 1000,
        unconfirmed=reading.unconfirmed,
    )


def find_problems(status: Status, *, max_overdue_s: float) -> list[str]:
    """Return what somebody should look at, and what to do about it."""
    problems = list(status.unreadable)
    for tenant in status.tenants:
        if not tenant.live:
            problems.append(
                f"Tenant {tenant.tenant!r}: {_explain_silence(tenant)}, so nothing is dispatched. Start"
                " manage.py run_leased_scheduler on any machine; where it runs already, its log says what it waits for."
            )
        if tenant.max_overdue_s > max_overdue_s:
            jobs = "1 job is" if tenant.overdue == 1 else f"{tenant.overdue} jobs are"
            problems.append(
                f"Tenant {tenant.tenant!r}: {jobs} overdue, by up to {tenant.max_overdue_s:.1f} s (limit"
                f" {max_overdue_s:g} s)." + (" Look at its holder's log and at the broker." if tenant.live else "")
            )
    return problems


def _explain_silence(tenant: TenantStatus) -> str:
    if tenant.expires_in_s is None:
        return "nobody holds its lease"
    if tenant.expires_in_s <= 0:
        return f"the lease of {tenant.holder_id} ran out {abs(tenant.expires_in_s):.1f} s ago and nobody has taken it"
    return f"{tenant.holder_id} holds its lease and no longer reports itself"


def _explain_passes(tenant: Tenant, jobs: int) -> str:
    pace = (
        "as often as 5 % of one core allows; the holder's log says how often that is"
        if jobs > _MANY_JOBS
        else "at every poll or nearly"
    )
    return (
        f"Tenant {tenant.key!r}: its edit triggers are missing, so edits are found by passes over all {jobs:,} jobs,"
        f" {pace}. To install them: manage.py migrate --database={tenant.alias}, as a user who may create triggers."
    )


def _find_live(readings: Iterable[Reading], *, lease_ttl_ms: int) -> list[ProcessStatus]:
    """Return each live process once, as it reported itself last: it may be known to many databases."""
    latest: dict[str, ProcessStatus] = {}
    for reading in readings:
        for process in reading.processes:
            known = latest.get(process.holder_id, process)
            if is_seen(process.last_seen_at_ms, now_ms=reading.now_ms, lease_ttl_ms=lease_ttl_ms):
                latest[process.holder_id] = max(known, process, key=lambda each: each.last_seen_at_ms)
    return sorted(latest.values(), key=lambda process: process.holder_id)


def _read_tenant(tenant: Tenant, session: Session) -> Reading:
    """Ask a tenant's database.

    Raises:
        StoreError: it does not answer, lacks our tables or cannot tell the time.
    """
    dialect, session.schema = session.dialect, tenant.schema
    with session.transaction(reading=True):
        ((now_ms,),) = session.fetch(f"SELECT {dialect.now_ms}")
        if not is_plausible(now_ms):
            raise DatabaseClockError(tenant.alias, now_ms)
        parameters = {"tenant_key": tenant.key, "now_ms": now_ms}
        leases = session.fetch(_READ_LEASE.format(lease=dialect.shared(LEASE)), parameters)
        processes = session.fetch(_READ_PROCESSES.format(process=dialect.shared(PROCESS)))
        (work,) = session.fetch(_READ_WORK, parameters)
    has_edit_triggers = find_triggers(session)
    lease = dict(zip(_LEASE, leases[0], strict=True)) if leases else {}
    return Reading(
        now_ms=now_ms,
        processes=[_decode_process(row) for row in processes],
        has_edit_triggers=has_edit_triggers,
        **lease,
        **dict(zip(_WORK, work, strict=True)),
    )


def _decode_process(row: tuple[Any, ...]) -> ProcessStatus:
    *columns, draining, tenants = row
    values = dict(zip(_PROCESS, columns, strict=True))
    return ProcessStatus(**values, draining=bool(draining), tenants=json.loads(tenants))
