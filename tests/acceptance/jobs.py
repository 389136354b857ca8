"""Jobs of which a test knows every due time in advance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django_celery_beat.models import IntervalSchedule, PeriodicTask

from tests.acceptance.account import Due


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """Interval jobs of one period, which all come due at the same instants."""

    ids: Sequence[int]
    first_due_ms: int
    every_s: int

    def due_until(self, end_ms: int) -> frozenset[Due]:
        """Return what comes due from the first instant up to, and without, ``end_ms``."""
        instants = range(self.first_due_ms, end_ms, self.every_s * 1000)
        return frozenset((job_id, due_at_ms) for job_id in self.ids for due_at_ms in instants)


def add_jobs(alias: str, count: int, *, every_s: int, first_due_ms: int) -> Jobs:
    """Add jobs in bulk, whose first due time is a whole second."""
    # Not save(): django-celery-beat's own bookkeeping of a save goes to the default database.
    intervals = IntervalSchedule.objects.using(alias)
    intervals.bulk_create([IntervalSchedule(every=every_s, period=IntervalSchedule.SECONDS)])
    interval = intervals.latest("id")
    PeriodicTask.objects.using(alias).bulk_create(
        PeriodicTask(
            name=f"job {first_due_ms} {number}",
            task="example_project.tasks.record",
            interval=interval,
            start_time=datetime.fromtimestamp(first_due_ms // 1000, UTC),
        )
        for number in range(count)
    )
    added = PeriodicTask.objects.using(alias).filter(interval=interval).order_by("id")
    return Jobs(ids=list(added.values_list("id", flat=True)), first_due_ms=first_due_ms, every_s=every_s)


def remove_jobs(alias: str, jobs: Jobs) -> None:
    """Delete rows as by hand: nothing else goes with them."""
    PeriodicTask.objects.using(alias).filter(id__in=jobs.ids)._raw_delete(alias)
