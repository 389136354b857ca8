"""The models whose rows all tenants of a database share, where each tenant has a schema."""

from __future__ import annotations

from typing import Final

from django.db import connections, models

from django_leased_cron.database.postgres import PostgresDialect
from django_leased_cron.models import JobEdit, SchedulerLease, SchedulerProcess
from django_leased_cron.schema_settings import find_shared_schema, get_tenant_alias

_SHARED: Final[tuple[type[models.Model], ...]] = (JobEdit, SchedulerLease, SchedulerProcess)


def share_models() -> None:
    """Have these models name the shared schema, as our own SQL does; asks no database.

    Their tables are in the schemas of the tenants too, empty: that is how django-tenants migrates an app. Migrations
    have models of their own and are not changed by this.
    """
    alias = get_tenant_alias()
    schema = find_shared_schema(connections[alias]) if alias in connections else None
    if schema is not None:
        for model in _SHARED:
            model._meta.db_table = PostgresDialect(shared_schema=schema).shared(model._meta.db_table)
