"""When the code's schedule is brought into the rows: once at the start of each term, beside the scheduling.

On a thread of its own and without the lease: a project that holds a thousand entries, or a database that refuses one,
must not keep a due job waiting. What the rows are changed to reaches the plan as every edit does.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from celery import Celery
from django.db import Error as DjangoDatabaseError
from django.db import connections

from django_leased_cron.code_schedule.entries import read_code_schedule
from django_leased_cron.code_schedule.mode import read_mode
from django_leased_cron.code_schedule.rows import SyncReport, TenantRows
from django_leased_cron.core.events import (
    CodeEntryRefused,
    CodeJobsOrphaned,
    CodeScheduleSynchronised,
    DatabaseOutage,
    DatabaseRecovered,
    Emit,
    Event,
    LeaseAcquired,
    LoopFailed,
    TermEnded,
)
from django_leased_cron.database import build_dialect
from django_leased_cron.exceptions import DatabaseUnavailableError, MissingTableError, StoreError
from django_leased_cron.job_tools.transfer.beat_schedule import read_beat_schedule
from django_leased_cron.tenants import Tenant, entered

_RETRY_S: Final = 5.0
_DOING: Final = "synchronising the code's schedule"


class CodeScheduleSync:
    """Synchronises the tenants whose terms begin, one after another; tries again until it works or the term ends."""

    def __init__(self, app: Celery, tenants: Mapping[str, Tenant], *, emit: Emit) -> None:
        """Read the mode; ``beat_schedule`` itself is read at the start of each term.

        Args:
            app: finalized, with its task modules imported, by the time the first term begins.
            tenants: by key, those whose terms may begin here; may grow.

        Raises:
            ConfigurationError: there is no such mode, or ``beat_schedule`` is no dict.
        """
        self._app = app
        self._mode = read_mode(app)
        read_beat_schedule(app)
        self._tenants = tenants
        self._emit = emit
        self._changed = threading.Condition()
        self._owed: dict[str, int] = {}
        self._failing: set[str] = set()
        self._thread: threading.Thread | None = None

    def observe(self, event: Event) -> None:
        """Note that a term began or ended; returns at once."""
        match event:
            case LeaseAcquired(tenant_key=tenant_key, epoch=epoch):
                with self._changed:
                    self._owed[tenant_key] = epoch
                    self._changed.notify()
                    if self._thread is None:
                        self._thread = threading.Thread(target=self._run, name="leased-cron-code-schedule", daemon=True)
                        self._thread.start()
            case TermEnded(tenant_key=tenant_key, epoch=epoch):
                self._settle(tenant_key, epoch)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._owed:
                    self._changed.wait()
                owed = dict(self._owed)
            for tenant_key, epoch in owed.items():
                self._try(self._tenants[tenant_key], epoch)
            for alias in {self._tenants[tenant_key].alias for tenant_key in owed}:
                connections[alias].close()
            with self._changed:
                if owed.items() & self._owed.items():  # what failed; a term that begins does not wait for it
                    self._changed.wait(_RETRY_S)

    def _try(self, tenant: Tenant, epoch: int) -> None:
        try:
            with entered(tenant):
                self.synchronise(tenant)
        except (StoreError, DjangoDatabaseError) as exc:
            connections[tenant.alias].close()  # broken perhaps: the next tenant must not suffer for it
            self._failed(tenant, exc if isinstance(exc, StoreError) else _translated(exc, tenant))
            return
        except Exception as exc:  # noqa: BLE001 - top of the loop: ours to mend, and the next term tries again
            self._emit(LoopFailed(doing=_DOING, error=exc))
        self._worked(tenant)
        self._settle(tenant.key, epoch)

    def synchronise(self, tenant: Tenant) -> None:
        """Bring one tenant's jobs in step with the code, and tell what was done.

        Raises:
            StoreError: its database does not answer; ``django.db.Error``: it does not do what it is asked.
        """
        self._tell(tenant.key, TenantRows(tenant, mode=self._mode).synchronise(read_code_schedule(self._app)))

    def _tell(self, tenant_key: str, report: SyncReport) -> None:
        for entry, reason in report.refused.items():
            self._emit(CodeEntryRefused(tenant_key=tenant_key, entry=entry, reason=reason))
        if report.orphans:
            self._emit(CodeJobsOrphaned(tenant_key=tenant_key, jobs=report.orphans))
        if report.created or report.updated or report.disabled:
            self._emit(
                CodeScheduleSynchronised(
                    tenant_key=tenant_key,
                    mode=self._mode,
                    created=report.created,
                    updated=report.updated,
                    disabled=report.disabled,
                )
            )

    def _failed(self, tenant: Tenant, error: StoreError) -> None:
        if tenant.key not in self._failing:
            self._failing.add(tenant.key)
            self._emit(DatabaseOutage(alias=tenant.alias, doing=_DOING, detail=str(error)))

    def _worked(self, tenant: Tenant) -> None:
        if tenant.key in self._failing:
            self._failing.discard(tenant.key)
            self._emit(DatabaseRecovered(alias=tenant.alias, doing=_DOING))

    def _settle(self, tenant_key: str, epoch: int) -> None:
        with self._changed:
            if self._owed.get(tenant_key) == epoch:
                del self._owed[tenant_key]


def _translated(error: DjangoDatabaseError, tenant: Tenant) -> StoreError:
    detail = next(iter(str(error).splitlines()), type(error).__name__)
    if build_dialect(tenant.alias).is_missing_table(error):
        return MissingTableError(tenant.alias, detail, schema=tenant.schema)
    return DatabaseUnavailableError(tenant.alias, detail)
