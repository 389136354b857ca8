"""What the code says: each entry of ``beat_schedule`` as the job that it describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from celery import Celery
from celery.app.backends import by_url
from celery.backends.base import DisabledBackend
from celery.exceptions import ImproperlyConfigured
from celery.schedules import crontab

from django_leased_cron.job_tools.transfer.beat_schedule import convert_beat_entry, read_beat_schedule
from django_leased_cron.job_tools.transfer.definition import JobDefinition, read_definition
from django_leased_cron.job_tools.transfer.entries import Entry

_CLEANUP: Final = "celery.backend_cleanup"
_CLEANUP_EXPIRES_S: Final = 12 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeEntry:
    """One entry.

    Attributes:
        name: its key in ``beat_schedule``.
        wanted: the job as it would be created.
        keys: what of it the code decides: what beat reads, mentioned or not, and what else is mentioned.
    """

    name: str
    wanted: JobDefinition
    keys: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSchedule:
    """All entries; ``refused`` has the reason, by name, for each that cannot be a job."""

    entries: Sequence[CodeEntry]
    refused: Mapping[str, str]


def read_code_schedule(app: Celery) -> CodeSchedule:
    """Return what the code says now; the app is finalized and its task modules are imported.

    An entry with anything that a job has no column for is refused as a whole: one that silently lost half of its
    options would be worse than none.
    """
    entries: list[CodeEntry] = []
    refused: dict[str, str] = {}
    for name, value in {**_find_default_entries(app), **read_beat_schedule(app)}.items():
        result = _read(convert_beat_entry(name, value, app=app))
        if isinstance(result, CodeEntry):
            entries.append(result)
        else:
            refused[name] = "; ".join(result)
    return CodeSchedule(entries=entries, refused=refused)


def _read(entry: Entry) -> CodeEntry | Sequence[str]:
    wanted = read_definition(entry.document)
    if isinstance(wanted, JobDefinition) and not entry.problems:
        return CodeEntry(name=entry.name, wanted=wanted, keys=[key for key in entry.document if key != "job"])
    # A part that could not be converted is missing for that reason.
    return entry.problems or ([] if isinstance(wanted, JobDefinition) else wanted)


def _find_default_entries(app: Celery) -> dict[str, Any]:
    """Return the clean-up of old results, where the project has a result backend that does not do it by itself."""
    if not (app.conf.result_backend and app.conf.result_expires):
        return {}
    try:
        backend: Any = by_url(app.conf.result_backend, app.loader)[0]  # type: ignore[index]  # the stubs are wrong
    except (ImportError, ImproperlyConfigured):
        return {}  # what ails it is told wherever it is used
    if issubclass(backend, DisabledBackend) or backend.supports_autoexpire:
        return {}
    every_night = crontab(minute="0", hour="4", app=app)
    options = {"expire_seconds": _CLEANUP_EXPIRES_S}
    return {_CLEANUP: {"task": _CLEANUP, "schedule": every_night, "options": options}}
