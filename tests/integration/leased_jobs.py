"""Running ``leased_jobs``, and the jobs it is run on."""

from __future__ import annotations

import io
import json
from datetime import datetime
from typing import Any

from django.core.management import CommandError, call_command
from django.db import connections
from django_celery_beat.models import ClockedSchedule, CrontabSchedule, IntervalSchedule, PeriodicTask

from django_leased_cron.core.planning_inputs import FORMAT
from django_leased_cron.database import build_dialect
from django_leased_cron.models import JobState
from django_leased_cron.outbox.job_rows import JOB_WITH_SCHEDULE, message_digest, planning_inputs
from django_leased_cron.tenants import Tenant


def run(*arguments: str, errors: io.StringIO | None = None) -> str:
    """Return what the command prints."""
    output = io.StringIO()
    call_command("leased_jobs", *arguments, stdout=output, stderr=errors or io.StringIO())
    return output.getvalue()


def read(*arguments: str, fails_with: int = 0) -> list[dict[str, Any]]:
    """Return what the command prints as JSON, before it fails if it is to."""
    output, code = io.StringIO(), 0
    try:
        call_command("leased_jobs", *arguments, "--json", stdout=output, stderr=io.StringIO())
    except CommandError as error:
        if not fails_with:
            raise
        code = error.returncode
    assert code == fails_with
    document: list[dict[str, Any]] = json.loads(output.getvalue())
    return document


def create_job(alias: str, name: str, *, task: str = "shop.close", **columns: Any) -> Any:
    PeriodicTask.objects.using(alias).bulk_create([PeriodicTask(name=name, task=task, **columns)])
    return PeriodicTask.objects.using(alias).get(name=name)


def create_crontab(alias: str, **columns: str) -> Any:
    """Write a crontab row past every validation."""
    # Not create(): its signal writes to the database "default", which this test need not have.
    CrontabSchedule.objects.using(alias).bulk_create([CrontabSchedule(minute="30", hour="5", timezone="UTC")])
    crontab = CrontabSchedule.objects.using(alias).latest("pk")
    with connections[alias].cursor() as cursor:
        for column, value in columns.items():
            cursor.execute(
                f"UPDATE django_celery_beat_crontabschedule SET {column} = %s WHERE id = %s", [value, crontab.pk]
            )
    return crontab


def create_interval(alias: str, every: int, *, period: str = "seconds") -> Any:
    IntervalSchedule.objects.using(alias).bulk_create([IntervalSchedule(every=every, period=period)])
    return IntervalSchedule.objects.using(alias).latest("pk")


def create_clocked(alias: str, at: datetime) -> Any:
    ClockedSchedule.objects.using(alias).bulk_create([ClockedSchedule(clocked_time=at)])
    return ClockedSchedule.objects.using(alias).latest("pk")


def plan(alias: str, job: Any, *, next_due_at_ms: int | None, **columns: Any) -> None:
    """Write the plan that a scheduler has made of the job's row as it is."""
    dialect = build_dialect(alias)
    with connections[alias].cursor() as cursor:
        select = f"{planning_inputs(dialect)}, {message_digest(dialect)}"
        cursor.execute(f"SELECT {select} FROM {JOB_WITH_SCHEDULE} WHERE p.id = %s", [job.pk])
        inputs, digest = cursor.fetchone()
    JobState.objects.using(alias).create(
        job=job,
        inputs=inputs,
        inputs_format=FORMAT,
        message_digest=digest,
        next_due_at_ms=next_due_at_ms,
        fire_at_ms=next_due_at_ms,
        **columns,
    )


class OneTenant:
    """A project's own source of tenants."""

    def __init__(self, *, key: str, alias: str) -> None:
        self._tenants = (Tenant(key=key, alias=alias),)

    def list_tenants(self) -> tuple[Tenant, ...]:
        return self._tenants


class TwoTenants:
    """A source with two tenants, of which only the first has a database in these tests."""

    def list_tenants(self) -> tuple[Tenant, ...]:
        return Tenant(key="acme", alias="sqlite"), Tenant(key="umbrella", alias="postgres")
