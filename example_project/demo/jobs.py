"""The demo's jobs, and what is due by their schedules: arithmetic that shares no code with the scheduler's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django_celery_beat.models import IntervalSchedule, PeriodicTask

from django_leased_cron.core.occurrence import build_task_id

EACH_SECOND = ("alpha", "beta", "gamma")
EACH_MINUTE = "minutely"


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """One occurrence that must be dispatched and run, once."""

    job: str
    due_at_ms: int
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job due at ``first_due_at_ms`` and every ``every_ms`` after it."""

    id: int
    name: str
    first_due_at_ms: int
    every_ms: int

    def find_due(self, start_ms: int, end_ms: int) -> Sequence[Due]:
        """Return what is due from ``start_ms`` to ``end_ms``, both included."""
        skipped = max(0, -((self.first_due_at_ms - start_ms) // self.every_ms))
        first_ms = self.first_due_at_ms + skipped * self.every_ms
        return [
            Due(
                job=self.name,
                due_at_ms=due_at_ms,
                task_id=build_task_id(tenant_key="default", job_id=self.id, due_at_ms=due_at_ms),
            )
            for due_at_ms in range(first_ms, end_ms + 1, self.every_ms)
        ]


def create_jobs(*, first_due_at_s: int, minutely_due_at_s: int) -> Sequence[Job]:
    """Create the rows, as the admin would; a start time makes the first due moment known beforehand."""
    return [
        *(_create(name, every_s=1, first_due_at_s=first_due_at_s) for name in EACH_SECOND),
        _create(EACH_MINUTE, every_s=60, first_due_at_s=minutely_due_at_s),
    ]


def _create(name: str, *, every_s: int, first_due_at_s: int) -> Job:
    interval, _ = IntervalSchedule.objects.get_or_create(every=every_s, period=IntervalSchedule.SECONDS)
    row = PeriodicTask.objects.create(
        name=name,
        task="example_project.tasks.record",
        interval=interval,
        start_time=datetime.fromtimestamp(first_due_at_s, UTC),
    )
    return Job(id=row.pk, name=name, first_due_at_ms=first_due_at_s * 1000, every_ms=every_s * 1000)
