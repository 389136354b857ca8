"""Connections of our own to the project's databases, and the SQL that differs between vendors.

``session.py`` is the connection with its deadlines; ``dialect.py`` the port; one module per vendor behind it.
"""

from __future__ import annotations

from datetime import UTC, tzinfo

from django.db import connections
from django.utils import timezone

from django_leased_cron.database.dialect import Dialect
from django_leased_cron.database.mysql import MySQLDialect
from django_leased_cron.database.postgres import PostgresDialect
from django_leased_cron.database.sqlite import SQLiteDialect
from django_leased_cron.exceptions import ConfigurationError
from django_leased_cron.schema_settings import find_shared_schema

SUPPORTED_VENDORS = ("postgresql", "mysql", "sqlite")


def find_storage_zone(alias: str) -> tzinfo:
    """Return the zone in which the database's date-time text is to be read.

    PostgreSQL's columns know their instants, and the planning inputs show them in UTC; the others store what Django
    gives them: UTC, or local time where ``USE_TZ`` is off.
    """
    connection = connections[alias]
    if connection.vendor == "postgresql":
        return UTC
    # The connection's zone is None where USE_TZ is off.
    return connection.timezone or timezone.get_default_timezone()


def build_dialect(alias: str) -> Dialect:
    """Return the dialect of a database; connects to nothing.

    Raises:
        ConfigurationError: the vendor is not supported; it names the vendor.
    """
    connection = connections[alias]
    match connection.vendor:
        case "postgresql":
            return PostgresDialect(shared_schema=find_shared_schema(connection) or "")
        case "sqlite":
            return SQLiteDialect(storage_zone=str(find_storage_zone(alias)))
        case "mysql":
            return MySQLDialect(storage_zone=str(find_storage_zone(alias)))
        case vendor:
            supported = ", ".join(SUPPORTED_VENDORS)
            problem = f"database {alias!r}: vendor {vendor!r} is not supported (supported: {supported})"
            raise ConfigurationError([problem])
