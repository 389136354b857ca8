"""System checks: what is wrong is said at start, all at once, with the remedy.

====================  ==============================================================================
``leased_cron.E001``  ``LEASED_CRON`` has an unknown key, a wrong value or a wrong order.
``leased_cron.E002``  ``django_celery_beat`` is not in ``INSTALLED_APPS``.
``leased_cron.E003``  The tenants' backend cannot be imported or built.
``leased_cron.E004``  The list of tenants cannot work: a bad key or alias, or two tenants in one database.
``leased_cron.E005``  The vendor of a tenant's database is not supported.
``leased_cron.E006``  The driver of a tenant's database is not supported.
``leased_cron.E007``  The version of a tenant's database is not supported (*).
``leased_cron.E008``  A tenant's database does not answer (*).
``leased_cron.E009``  A tenant's database is read-only (*).
``leased_cron.E010``  Two aliases lead to one database (*).
``leased_cron.W001``  A SQLite database lacks the settings that let its writers wait for each other.
``leased_cron.W002``  The tenants could not be listed, so their databases were not checked (*).
====================  ==============================================================================

(*) Asks a database, so it runs only where Django names some: ``manage.py check --database default``, ``migrate``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Final

from django.apps import apps
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.db import Error as DatabaseError
from django.db import NotSupportedError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.sqlite3.base import DatabaseWrapper as SQLiteWrapper

from django_leased_cron.conf import find_problems, get_settings, project_mapping
from django_leased_cron.database import SUPPORTED_VENDORS
from django_leased_cron.database.server import ask_server
from django_leased_cron.exceptions import ConfigurationError
from django_leased_cron.setting_values import SETTING
from django_leased_cron.tenants import STATIC_BACKENDS, Tenant, get_tenant_source

_TAG: Final = "leased_cron"

_OLDEST_VERSIONS: Final[dict[str, tuple[int, ...]]] = {
    "PostgreSQL": (14,),
    "MySQL": (8,),
    "MariaDB": (10, 6),
    "SQLite": (3, 35),
}
_DRIVERS: Final = {
    "postgresql": ("psycopg", "psycopg 3", "pip install 'django-leased-cron[postgres]', and uninstall psycopg2"),
    "mysql": ("MySQLdb", "mysqlclient", "pip install 'django-leased-cron[mysql]', and ENGINE django.db.backends.mysql"),
}
"""By vendor: the module, its name to people, and how to get it."""


@register(_TAG)
def check_settings(**_: Any) -> list[CheckMessage]:
    """Report every problem of ``LEASED_CRON``."""
    return [
        Error(problem.message, hint=problem.hint, obj=SETTING, id="leased_cron.E001")
        for problem in find_problems(project_mapping())
    ]


@register(_TAG)
def check_installed_apps(**_: Any) -> list[CheckMessage]:
    """Report that the app whose jobs are to be scheduled is missing."""
    if apps.is_installed("django_celery_beat"):
        return []
    hint = "Add 'django_celery_beat' to INSTALLED_APPS, before 'django_leased_cron'."
    return [Error("django_celery_beat is not installed.", hint=hint, id="leased_cron.E002")]


@register(_TAG)
def check_tenants(**_: Any) -> list[CheckMessage]:
    """Report what the settings alone show about the tenants and their databases."""
    try:
        settings = get_settings()
    except ConfigurationError:
        return []  # check_settings reports it
    try:
        source = get_tenant_source()
    except ConfigurationError as exc:
        return [Error(problem, id="leased_cron.E003") for problem in exc.problems]
    if settings.tenants_backend not in STATIC_BACKENDS:
        return []  # its list may come from a database: check_databases looks at it
    try:
        tenants = source.list_tenants()
    except ConfigurationError as exc:
        return [Error(problem, id="leased_cron.E004") for problem in exc.problems]
    return [message for alias in _find_aliases(tenants) for message in _check_configuration(alias)]


@register(Tags.database)
def check_databases(*, databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Report what only databases can say about the tenants."""
    if not databases:
        return []
    try:
        is_static = get_settings().tenants_backend in STATIC_BACKENDS
        source = get_tenant_source()
    except ConfigurationError:
        return []  # the checks above report it
    try:
        tenants = source.list_tenants()
    except ConfigurationError as exc:
        return [] if is_static else [Error(problem, id="leased_cron.E004") for problem in exc.problems]
    except DatabaseError as exc:
        # Not an error: `migrate` runs this check, and may be about to create the table that was missing.
        hint = "Run: manage.py migrate. If all is migrated, see why the tenants' backend fails."
        return [CheckWarning(f"The tenants could not be listed: {exc}", hint=hint, id="leased_cron.W002")]
    messages: list[CheckMessage] = []
    identities: dict[Hashable, str] = {}
    for alias in _find_aliases(tenants):
        if alias in databases:
            if not is_static:
                messages += _check_configuration(alias)
            messages += _check_server(alias, identities)
    return messages


def _find_aliases(tenants: Sequence[Tenant]) -> Sequence[str]:
    """Return each alias once: a database may have thousands of tenants."""
    return list(dict.fromkeys(tenant.alias for tenant in tenants))


def _check_configuration(alias: str) -> Iterator[CheckMessage]:
    connection = connections[alias]
    if connection.vendor not in SUPPORTED_VENDORS:
        yield Error(
            f"Database {alias!r}: the vendor {connection.vendor!r} is not supported.",
            hint=f"Keep the jobs in one of {', '.join(SUPPORTED_VENDORS)}.",
            id="leased_cron.E005",
        )
        return
    if connection.vendor in _DRIVERS:
        module, name, remedy = _DRIVERS[connection.vendor]
        found = getattr(getattr(connection, "Database", None), "__name__", "?")
        if found != module:
            message = f"Database {alias!r}: the driver {found!r} is not supported, it takes {name}."
            yield Error(message, hint=f"Run: {remedy}.", id="leased_cron.E006")
    yield from _check_sqlite_options(alias, connection)


def _check_sqlite_options(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    if not isinstance(connection, SQLiteWrapper) or connection.is_in_memory_db():
        return
    options = connection.settings_dict["OPTIONS"]
    missing = []
    if str(options.get("transaction_mode")).upper() != "IMMEDIATE":
        missing.append('"transaction_mode": "IMMEDIATE"')
    if "journal_mode=wal" not in str(options.get("init_command")).lower().replace(" ", ""):
        missing.append('"init_command": "PRAGMA journal_mode=WAL"')
    if missing:
        yield CheckWarning(
            f'Database {alias!r}: processes fail at once, "database is locked", instead of waiting for their turn.',
            hint=f"Add to its OPTIONS: {', '.join(missing)}.",
            id="leased_cron.W001",
        )


def _check_server(alias: str, identities: dict[Hashable, str]) -> Iterator[CheckMessage]:
    connection = connections[alias]
    try:
        name, version = connection.display_name, connection.get_database_version()
    except NotSupportedError as exc:  # too old for Django, which says so itself
        yield Error(f"Database {alias!r}: {exc}", id="leased_cron.E007")
    except DatabaseError as exc:
        hint = f"Start it, or correct DATABASES[{alias!r}]."
        yield Error(f"Database {alias!r} does not answer: {exc}", hint=hint, id="leased_cron.E008")
    else:
        oldest = _OLDEST_VERSIONS.get(name)
        if oldest and version < oldest:
            found, wanted = (".".join(map(str, numbers)) for numbers in (version, oldest))
            message = f"Database {alias!r}: {name} {found} is too old."
            yield Error(message, hint=f"Use {name} {wanted} or later.", id="leased_cron.E007")
        else:
            yield from _check_facts(alias, identities)


def _check_facts(alias: str, identities: dict[Hashable, str]) -> Iterator[CheckMessage]:
    try:
        facts = ask_server(connections[alias])
    except DatabaseError as exc:
        yield Error(f"Database {alias!r} does not answer: {exc}", id="leased_cron.E008")
        return
    if facts is None:
        return
    if facts.is_read_only:
        hint = f"Let DATABASES[{alias!r}] lead to the primary, or leave its tenant out."
        yield Error(
            f"Database {alias!r} is read-only: nothing can be scheduled there.", hint=hint, id="leased_cron.E009"
        )
    first = identities.setdefault(facts.identity, alias)
    if first != alias:
        yield Error(
            f"Databases {first!r} and {alias!r} are one: both tenants would schedule the same jobs.",
            hint="Give each tenant a database of its own.",
            id="leased_cron.E010",
        )
