"""What the project's settings of django-tenants say; it is installed only where they are."""

from __future__ import annotations

from collections.abc import Collection

from django.db import DEFAULT_DB_ALIAS
from django.db.backends.base.base import BaseDatabaseWrapper

from django_leased_cron.conf import read_project_setting


def find_shared_schema(connection: BaseDatabaseWrapper) -> str | None:
    """Return the schema that all tenants of a database share; ``None``: its engine is not that of django-tenants."""
    return get_public_schema() if hasattr(connection, "set_schema") else None


def find_current_schema(connection: BaseDatabaseWrapper) -> str:
    """Return the schema whose tables the connection finds first; empty: its engine is not that of django-tenants."""
    return getattr(connection, "schema_name", None) or ""


def get_public_schema() -> str:
    found: str = read_project_setting("PUBLIC_SCHEMA_NAME", "public")
    return found


def get_tenant_alias() -> str:
    """Return the alias of the database with the schemas."""
    found: str = read_project_setting("TENANT_DB_ALIAS", DEFAULT_DB_ALIAS)
    return found


def find_tenant_model() -> str | None:
    """Return the model with one row for each schema, as ``app.Model``."""
    found: str | None = read_project_setting("TENANT_MODEL")
    return found


def get_shared_apps() -> Collection[str]:
    """Return the apps whose tables are in the public schema."""
    found: Collection[str] = read_project_setting("SHARED_APPS", ())
    return found


def get_tenant_apps() -> Collection[str]:
    """Return the apps whose tables are in each tenant's schema."""
    found: Collection[str] = read_project_setting("TENANT_APPS", ())
    return found
