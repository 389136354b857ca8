"""Many tenants in one PostgreSQL, each a schema with its jobs: copies of one that was migrated."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask
from django_tenants.utils import schema_context

from benchmarks.figures import tell
from django_leased_cron.edit_triggers import install
from tests.schema_project.customers.models import Customer

TASK: Final = "benchmarks.nothing"
_TEMPLATE: Final = "template"
_AT_ONCE: Final = 20
"""Schemas in one transaction: each of its tables is a lock that the server has to remember."""
_COPY: Final = """DO $$
DECLARE
    table_name text;
BEGIN
    EXECUTE format('CREATE SCHEMA %%I', {schema});
    FOR table_name IN SELECT tablename FROM pg_tables WHERE schemaname = {template} LOOP
        EXECUTE format('CREATE TABLE %%1$I.%%3$I (LIKE %%2$I.%%3$I INCLUDING ALL)', {schema}, {template}, table_name);
        EXECUTE format('INSERT INTO %%1$I.%%3$I OVERRIDING SYSTEM VALUE SELECT * FROM %%2$I.%%3$I',
            {schema}, {template}, table_name);
    END LOOP;
END $$"""


def make_schemas(tenants: int, *, jobs: int) -> None:
    """Make sure that there are so many tenants with so many jobs, none of them due for a day."""
    call_command("migrate_schemas", shared=True, verbosity=0)
    if not Customer.objects.filter(schema_name=_TEMPLATE).exists():
        Customer(schema_name=_TEMPLATE).save(verbosity=0)
        with schema_context(_TEMPLATE):
            _seed(jobs)
    names = [_TEMPLATE, *(f"tenant_{number:05}" for number in range(1, tenants))]
    known = set(Customer.objects.values_list("schema_name", flat=True))
    missing = [name for name in names if name not in known]
    for first in range(0, len(missing), _AT_ONCE):
        _copy(missing[first : first + _AT_ONCE])
        if first % 200 == 0:
            tell(f"{len(known) + first} schemas")
    for surplus in Customer.objects.exclude(schema_name__in=names):
        surplus.delete(force_drop=True)


def _seed(jobs: int) -> None:
    daily, _ = IntervalSchedule.objects.get_or_create(every=1, period=IntervalSchedule.DAYS)
    rows = [
        PeriodicTask(
            name=f"job {number}",
            task=TASK,
            interval=daily,
            start_time=timezone.now() + timedelta(days=1, seconds=number),
        )
        for number in range(jobs)
    ]
    PeriodicTask.objects.bulk_create(rows)


def _copy(names: list[str]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SET LOCAL synchronous_commit = off")
        for name in names:
            cursor.execute(_COPY.format(schema=f"'{name}'", template=f"'{_TEMPLATE}'").replace("%%", "%"))
        cursor.execute("COMMIT")
    for name in names:
        with schema_context(name):
            install(connection)
    Customer.objects.bulk_create([Customer(schema_name=name) for name in names])
