"""The ways by which people edit jobs, on the database ``default``.

Each edit gets the ids of jobs that share one crontab, and returns those of the jobs whose plans are to change.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection, connections
from django.db.migrations.loader import MigrationLoader
from django.test import Client
from django.urls import reverse
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from tests.job_page import submit

TASK: Final = "example_project.tasks.noop"
TRUNCATE: Final = "SQL TRUNCATE"
_JOBS: Final = "django_celery_beat_periodictask"
_CRONTABS: Final = "django_celery_beat_crontabschedule"

Edit = Callable[[Sequence[int]], Sequence[int]]


# People


def save_in_admin(ids: Sequence[int]) -> Sequence[int]:
    response = submit(_log_in(), _get(ids), enabled=False)
    assert response.status_code == 302, response.content.decode()
    return ids[:1]


def act_in_admin(ids: Sequence[int]) -> Sequence[int]:
    selection = {"action": "disable_tasks", "_selected_action": [str(job_id) for job_id in ids]}
    response = _log_in().post(reverse("admin:django_celery_beat_periodictask_changelist"), selection)
    assert response.status_code == 302, response.content.decode()
    return ids


def delete_in_admin(ids: Sequence[int]) -> Sequence[int]:
    url = reverse("admin:django_celery_beat_periodictask_delete", args=[ids[0]])
    assert _log_in().post(url, {"post": "yes"}).status_code == 302
    return ids[:1]


def _log_in() -> Client:
    user, _ = get_user_model()._default_manager.get_or_create(username="editor", is_staff=True, is_superuser=True)
    client = Client()
    client.force_login(user)
    return client


# Code


def save(ids: Sequence[int]) -> Sequence[int]:
    job = _get(ids)
    job.crontab, job.interval = None, _interval()
    job.save()
    return ids[:1]


def save_by_a_clock_of(year: int) -> Edit:
    def save_then(ids: Sequence[int]) -> Sequence[int]:
        with _clock_at(datetime(year, 1, 1, tzinfo=UTC)):
            return save(ids)

    return save_then


def update(ids: Sequence[int]) -> Sequence[int]:
    PeriodicTask.objects.filter(id__in=ids).update(enabled=False)
    return ids


def bulk_create(ids: Sequence[int]) -> Sequence[int]:
    old = _get(ids)
    jobs = [PeriodicTask(name=f"{old.name} new {number}", task=TASK, crontab=old.crontab) for number in range(len(ids))]
    PeriodicTask.objects.bulk_create(jobs)
    return list(PeriodicTask.objects.filter(name__in=[job.name for job in jobs]).values_list("id", flat=True))


def bulk_update(ids: Sequence[int]) -> Sequence[int]:
    jobs = list(PeriodicTask.objects.filter(id__in=ids))
    for job in jobs:
        job.crontab, job.interval = None, _interval()
    PeriodicTask.objects.bulk_update(jobs, ["crontab", "interval"])
    return ids


def get_or_create(ids: Sequence[int]) -> Sequence[int]:
    name = f"{_get(ids).name} got or created"
    job, _ = PeriodicTask.objects.get_or_create(name=name, defaults={"task": TASK, "interval": _interval()})
    return [job.id]


def update_or_create(ids: Sequence[int]) -> Sequence[int]:
    PeriodicTask.objects.update_or_create(
        name=_get(ids).name, defaults={"task": TASK, "interval": _interval(), "crontab": None}
    )
    return ids[:1]


def migrate_data(ids: Sequence[int]) -> Sequence[int]:
    """Save as a data migration does: by models without signals and methods."""
    job = _historical_job().objects.get(id=ids[0])
    job.enabled = False
    job.save()
    return ids[:1]


def load_data(ids: Sequence[int]) -> Sequence[int]:
    with tempfile.TemporaryDirectory(prefix="leased_cron_fixture_") as folder:
        fixture = Path(folder) / "jobs.json"
        call_command("dumpdata", "django_celery_beat.periodictask", primary_keys=str(ids[0]), output=str(fixture))
        [entry] = json.loads(fixture.read_text())
        entry["fields"]["enabled"] = False
        fixture.write_text(json.dumps([entry]))
        call_command("loaddata", str(fixture), verbosity=0)
    return ids[:1]


def delete_shared_schedule(ids: Sequence[int]) -> Sequence[int]:
    """Its jobs go with it: django-celery-beat's foreign keys cascade, in Python."""
    CrontabSchedule.objects.get(periodictask__id=ids[0]).delete()
    return ids


def save_shared_schedule(ids: Sequence[int]) -> Sequence[int]:
    crontab = CrontabSchedule.objects.get(periodictask__id=ids[0])
    crontab.minute = "7,37"
    crontab.save()
    return ids


# SQL


def update_by_sql(ids: Sequence[int]) -> Sequence[int]:
    return _execute(f"UPDATE {_JOBS} SET enabled = %s WHERE id = %s", [False, ids[0]], concerns=ids[:1])


def delete_by_sql(ids: Sequence[int]) -> Sequence[int]:
    return _execute(f"DELETE FROM {_JOBS} WHERE id = %s", [ids[0]], concerns=ids[:1])


def update_shared_schedule_by_sql(ids: Sequence[int]) -> Sequence[int]:
    of_job = f"(SELECT crontab_id FROM {_JOBS} WHERE id = %s)"
    return _execute(f"UPDATE {_CRONTABS} SET minute = '7,47' WHERE id = {of_job}", [ids[0]], concerns=ids)


def truncate(ids: Sequence[int]) -> Sequence[int]:
    """Empty the whole table; SQLite has no TRUNCATE."""
    verb = "DELETE FROM" if connection.vendor == "sqlite" else "TRUNCATE TABLE"
    return _execute(f"{verb} {_JOBS}", [], concerns=ids)


EDITS: Final[Mapping[str, Edit]] = {
    "admin, a job's page": save_in_admin,
    "admin, an action on 10 jobs": act_in_admin,
    "admin, a job deleted": delete_in_admin,
    "save()": save,
    "save() on a host whose clock reads 2001": save_by_a_clock_of(2001),
    "save() on a host whose clock reads 2101": save_by_a_clock_of(2101),
    "QuerySet.update(), 10 jobs": update,
    "bulk_create(), 10 jobs": bulk_create,
    "bulk_update(), 10 jobs": bulk_update,
    "get_or_create()": get_or_create,
    "update_or_create()": update_or_create,
    "historical models of a data migration": migrate_data,
    "loaddata": load_data,
    "save() of a crontab that 10 jobs share": save_shared_schedule,
    "delete() of a crontab that 10 jobs share": delete_shared_schedule,
    "SQL UPDATE": update_by_sql,
    "SQL DELETE": delete_by_sql,
    "SQL UPDATE of a crontab that 10 jobs share": update_shared_schedule_by_sql,
    TRUNCATE: truncate,
}


def _get(ids: Sequence[int]) -> Any:
    return PeriodicTask.objects.get(id=ids[0])


def _interval() -> IntervalSchedule:
    return IntervalSchedule.objects.get_or_create(every=11, period=IntervalSchedule.DAYS)[0]


def _execute(sql: str, parameters: Sequence[Any], *, concerns: Sequence[int]) -> Sequence[int]:
    with connections["default"].cursor() as cursor:
        cursor.execute(sql, parameters)
    return concerns


@cache
def _historical_job() -> Any:
    state = MigrationLoader(None).project_state()
    return state.apps.get_model("django_celery_beat", "PeriodicTask")


def _clock_at(at: datetime) -> AbstractContextManager[object]:
    return patch("django.utils.timezone.now", return_value=at)
