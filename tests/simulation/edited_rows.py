"""The paths by which an edit reaches the rows, one of them at random each time.

None sends signals: django-celery-beat's write to the default database.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from django.db import connections
from django_celery_beat.models import PeriodicTask

from tests.simulation.timeline import CrontabPlan

_FIELDS: Final = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")


class EditedRows:
    """The rows of one database."""

    def __init__(self, alias: str, *, random: Random) -> None:
        self._alias = alias
        self._random = random

    def write_job(self, job_id: int, **columns: Any) -> None:
        jobs = PeriodicTask.objects.using(self._alias)
        match self._random.randrange(4):
            case 0:
                jobs.filter(pk=job_id).update(**columns)
            case 1:
                jobs.bulk_update([PeriodicTask(pk=job_id, **columns)], list(columns))
            case 2:
                # As loaddata does.
                job = jobs.get(pk=job_id)
                for name, value in columns.items():
                    setattr(job, name, value)
                job.save_base(raw=True, using=self._alias)
            case _:
                self._update("django_celery_beat_periodictask", job_id, columns)

    def write_schedule(self, model: Any, schedule_id: int, **columns: Any) -> None:
        if self._random.random() < 0.5:
            model.objects.using(self._alias).filter(pk=schedule_id).update(**columns)
        else:
            self._update(model._meta.db_table, schedule_id, columns)

    def _update(self, table: str, row_id: int, columns: dict[str, Any]) -> None:
        assignments = ", ".join(f"{name} = %s" for name in columns)
        self._execute(f"UPDATE {table} SET {assignments} WHERE id = %s", *columns.values(), row_id)

    def _execute(self, sql: str, *values: Any) -> None:
        with connections[self._alias].cursor() as cursor:
            cursor.execute(sql, values)

    def delete_job(self, job_id: int) -> None:
        if self._random.random() < 0.5:
            PeriodicTask.objects.using(self._alias).filter(pk=job_id)._raw_delete(self._alias)
        else:
            self._execute("DELETE FROM django_celery_beat_periodictask WHERE id = %s", job_id)

    def delete_crontab(self, schedule_id: int) -> None:
        """Delete a schedule's row under the feet of its jobs."""
        with connections[self._alias].constraint_checks_disabled():
            self._execute("DELETE FROM django_celery_beat_crontabschedule WHERE id = %s", schedule_id)


def to_columns(plan: CrontabPlan) -> dict[str, str]:
    """Return a crontab's fields by their columns."""
    return dict(zip(_FIELDS, plan.fields.split(), strict=True))
