"""Connections of our own to the project's databases, and the SQL that differs between vendors.

``session.py`` is the connection with its deadlines; ``dialect.py`` the port; one module per vendor behind it.
"""

from __future__ import annotations

from django.db import connections

from django_leased_cron.database.dialect import Dialect
from django_leased_cron.database.mysql import MySQLDialect
from django_leased_cron.database.postgres import PostgresDialect
from django_leased_cron.database.sqlite import SQLiteDialect
from django_leased_cron.exceptions import ConfigurationError

SUPPORTED_VENDORS = ("postgresql", "mysql", "sqlite")


def build_dialect(alias: str) -> Dialect:
    """Return the dialect of a database; connects to nothing.

    Raises:
        ConfigurationError: the vendor is not supported; it names the vendor.
    """
    connection = connections[alias]
    match connection.vendor:
        case "postgresql":
            return PostgresDialect()
        case "sqlite":
            return SQLiteDialect()
        case "mysql":
            return MySQLDialect()
        case vendor:
            supported = ", ".join(SUPPORTED_VENDORS)
            problem = f"database {alias!r}: vendor {vendor!r} is not supported (supported: {supported})"
            raise ConfigurationError([problem])
