"""The schedules of ``tests/data`` as rows of django-celery-beat, and how often each is due."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from celery import Celery
from celery.schedules import crontab, solar
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask, SolarSchedule

from django_leased_cron.job_tools.transfer.beat_schedule import convert_beat_entry
from tests.sweep.oracle import MINUTE, Watched, due_by_the_letter, watch

_FILE: Final = Path(__file__).parents[1] / "data" / "real_schedules.json"
_FIELDS: Final = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
_COLUMN_BY_OPTION: Final = {"queue": "queue", "priority": "priority", "expires": "expire_seconds"}
"""What a job's row has a column for, of what these schedules say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealSchedule:
    """One entry of the file."""

    name: str
    task: str
    schedule: Mapping[str, Any]
    zone: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    options: Mapping[str, Any]

    @property
    def left_out(self) -> list[str]:
        """The options that a job has no column for."""
        return [option for option in self.options if option not in _COLUMN_BY_OPTION]

    def find_problems(self, app: Celery) -> Sequence[str]:
        """Return what this project says of it when it stands in ``beat_schedule``."""
        match self.schedule:
            case {"type": "interval", "seconds": seconds}:
                schedule: Any = timedelta(seconds=seconds)
            case {"type": "solar", "event": event, "lat": latitude, "lon": longitude}:
                schedule = solar(event, latitude, longitude, app=app)
            case fields:
                schedule = crontab(**{name: fields[name] for name in _FIELDS}, app=app)
        entry = {"task": self.task, "schedule": schedule, "options": self.options}
        return convert_beat_entry(self.name, entry, app=app).problems

    def count_due(self, start: int, end: int) -> int:
        """Return how many of its slots are later than ``start`` and not later than ``end``, planned at ``start``."""
        match self.schedule:
            case {"type": "interval", "seconds": seconds}:
                return int((end - start) // seconds)
            case {"type": "solar"}:
                return (end - start) // 86_400  # one a day, where these are
            case fields:
                watched = _watch(self.zone, start + MINUTE, end + MINUTE)
                order = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
                return len(due_by_the_letter(" ".join(fields[name].replace(" ", "") for name in order), watched))


def read_real_schedules() -> Sequence[RealSchedule]:
    return [
        RealSchedule(
            name=f"{entry['project']}: {entry['name']}",
            task=entry["task"],
            schedule=entry["schedule"],
            zone=entry["timezone"] or "UTC",
            args=entry.get("args", []),
            kwargs=entry.get("kwargs", {}),
            options=entry.get("options", {}),
        )
        for entry in json.loads(_FILE.read_text())
    ]


def save_jobs(schedules: Sequence[RealSchedule], *, alias: str) -> None:
    """Write their rows as they are, past ``full_clean``; equal schedules share a row."""
    rows = {row_key: _build_schedule(row_key) for row_key in dict.fromkeys(map(_find_row_key, schedules))}
    for model in (IntervalSchedule, CrontabSchedule, SolarSchedule):
        model.objects.using(alias).bulk_create([row for row in rows.values() if isinstance(row, model)])
    PeriodicTask.objects.using(alias).bulk_create(
        [_build_job(schedule, rows[_find_row_key(schedule)]) for schedule in schedules]
    )


@cache
def _watch(zone: str, start: int, end: int) -> Watched:
    return watch(ZoneInfo(zone), start=start, end=end)


def _find_row_key(schedule: RealSchedule) -> tuple[Any, ...]:
    return (*schedule.schedule.values(), schedule.zone)


def _build_schedule(row_key: tuple[Any, ...]) -> Any:
    kind, *values, zone = row_key
    match kind:
        case "interval":
            return IntervalSchedule(every=values[0], period=IntervalSchedule.SECONDS)
        case "solar":
            event, latitude, longitude = values
            return SolarSchedule(event=event, latitude=Decimal(str(latitude)), longitude=Decimal(str(longitude)))
        case _:
            return CrontabSchedule(**dict(zip(_FIELDS, values, strict=True)), timezone=zone)


def _build_job(schedule: RealSchedule, row: Any) -> PeriodicTask:
    columns = {
        _COLUMN_BY_OPTION[option]: value for option, value in schedule.options.items() if option in _COLUMN_BY_OPTION
    }
    return PeriodicTask(
        name=schedule.name,
        task=schedule.task,
        args=json.dumps(schedule.args),
        kwargs=json.dumps(schedule.kwargs),
        **{schedule.schedule["type"]: row},
        **columns,
    )
