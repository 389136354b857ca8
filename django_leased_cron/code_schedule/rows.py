"""Comparing the code's schedule with a tenant's jobs, and writing what differs.

The ORM, because these rows are people's and not machine state; but only its statements in bulk: they neither send
django-celery-beat's change signals nor clean or version a row, and its ``save()`` writes to the wrong database.

Two processes may do this at once, say a frozen holder that goes on. Where both say the same, each statement alone
makes it so; of two that add one job, the unique name lets the first one win.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import DataError, IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from django_leased_cron.code_schedule.entries import CodeEntry, CodeSchedule
from django_leased_cron.code_schedule.mode import SyncMode
from django_leased_cron.job_tools.transfer.columns import to_columns
from django_leased_cron.job_tools.transfer.definition import to_entry
from django_leased_cron.job_tools.transfer.reading import KnownJob, read_known_jobs
from django_leased_cron.models import CodeJob
from django_leased_cron.tenants import Tenant

_AT_ONCE: Final = 500
_NAME_TAKEN: Final = "the job of this name belongs to another entry; rename one of them"
_NOT_STORED: Final = "the database does not take one of its values"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """What was done, by names of jobs; ``orphans`` are enabled and have no entry, ``refused`` has the reasons."""

    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    disabled: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


class TenantRows:
    """One tenant's jobs, and which of them belong to which entry.

    A job is found by the note that it belongs to an entry, so that people may rename it; without one, by its name.
    """

    def __init__(self, tenant: Tenant, *, mode: SyncMode) -> None:
        self._tenant = tenant
        self._mode = mode
        self._jobs = PeriodicTask.objects.using(tenant.alias)
        self._notes = CodeJob.objects.using(tenant.alias)

    def synchronise(self, code: CodeSchedule) -> SyncReport:
        """Bring the jobs in step with the code; nothing is written where nothing differs."""
        report = SyncReport(refused=dict(code.refused))
        notes = {note.entry: note for note in self._notes.all()}
        gone = notes.keys() - {entry.name for entry in code.entries} - code.refused.keys()
        jobs = self._read_jobs(code, notes)
        noted = {note.job_id for name, note in notes.items() if name not in gone}
        by_name = {job.name: job for job in jobs.values() if job.id not in noted}
        taken = set()
        for entry in code.entries:
            note = notes.get(entry.name)
            job = (jobs.get(note.job_id) if note else None) or by_name.get(entry.name)
            job_id = self._bring(entry, job, note, report)
            if job_id is not None:
                taken.add(job_id)
                self._note(entry.name, note, job_id=job_id)
        for name in sorted(gone):
            if notes[name].job_id not in taken:
                self._leave_behind(notes[name], jobs.get(notes[name].job_id), report)
        return report

    def _read_jobs(self, code: CodeSchedule, notes: Mapping[str, CodeJob]) -> Mapping[int, KnownJob]:
        """Return the jobs that are noted or named like an entry: not all of a tenant's, which may be a million."""
        ids = {note.job_id for note in notes.values()}
        names = [entry.name for entry in code.entries]
        for start in range(0, len(names), _AT_ONCE):
            ids.update(self._jobs.filter(name__in=names[start : start + _AT_ONCE]).values_list("pk", flat=True))
        return {job.id: job for job in read_known_jobs(self._tenant, job_ids=ids)} if ids else {}

    # Jobs that have an entry

    def _bring(self, entry: CodeEntry, job: KnownJob | None, note: CodeJob | None, report: SyncReport) -> int | None:
        """Create or change an entry's job; return its id, if there is one."""
        try:
            if job is None:
                return self._create(entry, report)
            if self._mode is not SyncMode.CREATE_ONLY:
                self._update(entry, job, report, has_returned=note is not None and not note.in_code)
        except DataError:
            report.refused[entry.name] = _NOT_STORED
        return job.id if job else None

    def _create(self, entry: CodeEntry, report: SyncReport) -> int | None:
        named: QuerySet[Any, int] = self._jobs.filter(name=entry.name).values_list("pk", flat=True)
        try:
            with transaction.atomic(using=self._tenant.alias):
                columns = to_columns(entry.wanted, entry.keys, alias=self._tenant.alias)
                self._jobs.bulk_create([PeriodicTask(name=entry.name, **columns)])
        except IntegrityError:
            # Another process was quicker; or people gave this name to the job of another entry.
            job_id = named.first()
            if job_id is None:
                raise
            if self._notes.filter(job_id=job_id, in_code=True).exclude(entry=entry.name).exists():
                report.refused[entry.name] = _NAME_TAKEN
                return None
            return job_id
        report.created.append(entry.name)
        return named.first()

    def _update(self, entry: CodeEntry, job: KnownJob, report: SyncReport, *, has_returned: bool) -> None:
        wanted, current = to_entry(entry.wanted), to_entry(job.definition) if job.definition else {}
        keys = [key for key in entry.keys if not current or current[key] != wanted[key]]
        changes = to_columns(entry.wanted, keys, alias=self._tenant.alias)
        if has_returned and self._mode is SyncMode.MIRROR and not current.get("enabled"):
            changes.setdefault("enabled", True)  # the mirror had switched it off
        if entry.wanted.one_off and changes.get("enabled"):
            del changes["enabled"]  # it is off because it had its run
        if changes:
            self._write(job, **changes)
            report.updated.append(job.name)

    # Jobs whose entry is gone

    def _leave_behind(self, note: CodeJob, job: KnownJob | None, report: SyncReport) -> None:
        if job is None:
            self._notes.filter(pk=note.pk).delete()
            return
        if note.in_code:
            self._notes.filter(pk=note.pk).update(in_code=False)
        if not self._jobs.filter(pk=job.id, enabled=True).exists():
            return
        if self._mode is SyncMode.MIRROR:
            self._write(job, enabled=False)
            report.disabled.append(job.name)
        else:
            report.orphans.append(job.name)

    # Both

    def _write(self, job: KnownJob, **changes: Any) -> None:
        self._jobs.filter(pk=job.id).update(**changes, date_changed=timezone.now())

    def _note(self, entry: str, note: CodeJob | None, *, job_id: int) -> None:
        """Note which job belongs to an entry."""
        if note is not None and note.job_id == job_id:
            if not note.in_code:
                self._notes.filter(pk=job_id).update(in_code=True)
            return
        self._notes.filter(Q(entry=entry) | Q(job_id=job_id)).delete()
        try:
            with transaction.atomic(using=self._tenant.alias):
                self._notes.bulk_create([CodeJob(job_id=job_id, entry=entry)])
        except IntegrityError:
            pass  # another process has noted it
