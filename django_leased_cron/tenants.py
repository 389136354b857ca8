"""Where tenants come from.

A tenant is the unit that has its own jobs, its own lease and its own beat scheduler. Each has a database or a schema of
its own: two tenants in one would both schedule the same job rows.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.sqlite3.base import DatabaseWrapper as SQLiteWrapper
from django.dispatch import receiver
from django.utils.module_loading import import_string

from django_leased_cron.conf import LeasedCronSettings, get_settings
from django_leased_cron.exceptions import ConfigurationError
from django_leased_cron.schema_settings import (
    find_shared_schema,
    find_tenant_model,
    get_public_schema,
    get_shared_apps,
    get_tenant_alias,
    get_tenant_apps,
)
from django_leased_cron.setting_values import SETTING

STATIC_BACKENDS: Final = ("django_leased_cron.tenants.SingleTenant", "django_leased_cron.tenants.DatabaseTenants")
"""Those that are known to list their tenants without asking a database."""
SHIPPED_BACKENDS: Final = (*STATIC_BACKENDS, "django_leased_cron.tenants.SchemaTenants")

_OURS: Final = "django_leased_cron"
_JOBS: Final = "django_celery_beat"

LONGEST_KEY: Final = 191  # the longest indexed text of four-byte characters on older MySQL row formats

_LOCAL_HOSTS: Final = frozenset({"", "localhost", "127.0.0.1", "::1"})
_DEFAULT_PORTS: Final = {"postgresql": "5432", "mysql": "3306"}
_SERVER_OPTIONS: Final = ("service", "host", "hostaddr", "port", "unix_socket", "read_default_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant: the key of its lease, and the alias in ``DATABASES`` where its jobs and its lease are.

    With a ``schema`` its jobs are in that one, and its lease is in the schema that all of the database share; the
    alias then has the engine of django-tenants.

    Raises:
        ConfigurationError: the key cannot be one. It is part of task ids and log lines, where a line break would
            make two tenants look like one.
    """

    key: str
    alias: str
    schema: str = ""

    def __post_init__(self) -> None:
        if not self.key:
            raise ConfigurationError([f"Tenant key {self.key!r} is empty. Give every tenant a name."])
        if len(self.key) > LONGEST_KEY:
            problem = f"Tenant key {self.key!r} has {len(self.key)} characters. Use at most {LONGEST_KEY}."
            raise ConfigurationError([problem])
        if not self.key.isprintable():
            raise ConfigurationError([f"Tenant key {self.key!r} has control characters. Use printable ones only."])


class TenantSource(Protocol):
    """What ``TENANTS["BACKEND"]`` names; it is called with ``TENANTS["OPTIONS"]`` as keyword arguments.

    It may also have a ``find_tenant(tenant_key)`` that returns a tenant or ``None``. Workers ask for one tenant at the
    start of every tracked run; without it they look through the list.
    """

    def list_tenants(self) -> Sequence[Tenant]:
        """Return the tenants as they are now.

        Called once a heartbeat by every scheduler. What it raises changes nothing: the tenants stay as they were.
        """
        ...


class SingleTenant:
    """One tenant, ``"default"``: the usual case.

    Args:
        alias: the database with the jobs.
    """

    def __init__(self, *, alias: str = DEFAULT_DB_ALIAS) -> None:
        self._tenants = (Tenant(key="default", alias=alias),)

    def list_tenants(self) -> Sequence[Tenant]:
        return self._tenants


class DatabaseTenants:
    """One tenant for each database; its key is the alias.

    Args:
        aliases: which of ``DATABASES``; all of them if left out.
    """

    def __init__(self, *, aliases: Iterable[str] | None = None) -> None:
        chosen = connections if aliases is None else aliases
        self._tenants = tuple(Tenant(key=alias, alias=alias) for alias in chosen)

    def list_tenants(self) -> Sequence[Tenant]:
        return self._tenants


class SchemaTenants:
    """One tenant for each schema of django-tenants; its key is the schema's name.

    The public schema is one too if ``django_celery_beat`` is among ``SHARED_APPS``: only then has it jobs.

    Raises:
        ConfigurationError: the project is not one of django-tenants, or its apps are not where they must be.
    """

    def __init__(self) -> None:
        problems = [*_find_schema_problems()]
        if problems:
            raise ConfigurationError(problems)
        self._alias = get_tenant_alias()
        self._public = get_public_schema()

    def list_tenants(self) -> Sequence[Tenant]:
        """Ask the database; raises ``django.db.Error``."""
        tenant_model = apps.get_model(find_tenant_model() or "")
        names = tenant_model._default_manager.using(self._alias).order_by("schema_name")
        found = [self._build(name) for name in names.values_list("schema_name", flat=True)]
        if _is_among(_JOBS, get_shared_apps()):
            return found
        return [tenant for tenant in found if tenant.schema != self._public]

    def find_tenant(self, tenant_key: str) -> Tenant | None:
        """Return the tenant without a look at the database: whoever asks has a message from its scheduler."""
        return self._build(tenant_key)

    def _build(self, schema: str) -> Tenant:
        return Tenant(key=schema, alias=self._alias, schema=schema)


def _find_schema_problems() -> Iterator[str]:
    alias = get_tenant_alias()
    if alias not in connections or find_shared_schema(connections[alias]) is None:
        yield f"SchemaTenants: the ENGINE of DATABASES[{alias!r}] is not 'django_tenants.postgresql_backend'."
        return
    if find_tenant_model() is None:
        yield "SchemaTenants: TENANT_MODEL is not set. It names the model of django-tenants with one row per schema."
    if not _is_among(_OURS, get_shared_apps()):
        yield f"SchemaTenants: add {_OURS!r} to SHARED_APPS: the leases of all tenants are in the public schema."
    yield from (
        f"SchemaTenants: add {app!r} to TENANT_APPS: jobs, plans and policies are in each tenant's schema."
        for app in (_OURS, _JOBS)
        if not _is_among(app, get_tenant_apps())
    )


def _is_among(app: str, listed: Iterable[str]) -> bool:
    """Return whether an app is listed, by its name or by its configuration's."""
    return any(entry == app or entry.startswith(f"{app}.") for entry in listed)


@contextmanager
def entered(tenant: Tenant) -> Iterator[None]:
    """Have Django's own connection, in this thread, find the tenant's tables while the block runs."""
    if not tenant.schema:
        yield
        return
    connection: Any = connections[tenant.alias]
    outer, includes_public = connection.tenant, connection.include_public_schema
    connection.set_schema(tenant.schema)
    try:
        yield
    finally:
        connection.set_tenant(outer, include_public=includes_public)


def build_tenant_source(settings: LeasedCronSettings) -> CheckedTenants:
    """Return the source that the settings name; what it lists is checked before anybody acts on it.

    Raises:
        ConfigurationError: it cannot be imported or does not take its options. Its ``list_tenants`` raises the same
            for a list that cannot work.
    """
    path = settings.tenants_backend
    try:
        backend = import_string(path)
    except ImportError as exc:
        problem = f"TENANTS.BACKEND {path!r} cannot be imported: {exc}. Write the dotted path of a class."
        raise ConfigurationError([problem]) from exc
    try:
        source = backend(**settings.tenants_options)
    except TypeError as exc:
        problem = f"TENANTS.BACKEND {path!r} cannot be called with OPTIONS {dict(settings.tenants_options)!r}: {exc}."
        raise ConfigurationError([problem]) from exc
    if not callable(getattr(source, "list_tenants", None)):
        raise ConfigurationError([f"TENANTS.BACKEND {path!r} has no list_tenants(). Write one that returns tenants."])
    return CheckedTenants(cast(TenantSource, source))


@functools.cache
def get_tenant_source() -> CheckedTenants:
    """Return the project's source, built once."""
    return build_tenant_source(get_settings())


def find_tenant(tenant_key: str) -> Tenant | None:
    """Return a tenant, or nothing if no such tenant is listed."""
    return get_tenant_source().find_tenant(tenant_key)


@receiver(setting_changed)
def _forget_source(*, setting: str, **_: object) -> None:
    if setting == SETTING:
        get_tenant_source.cache_clear()


class CheckedTenants:
    """Another source, whose list is checked whenever it has changed."""

    def __init__(self, source: TenantSource) -> None:
        self._source = source
        self._checked: tuple[Tenant, ...] = ()

    def list_tenants(self) -> Sequence[Tenant]:
        tenants = tuple(self._source.list_tenants())
        if tenants != self._checked:
            problems = _find_problems(tenants)
            if problems:
                raise ConfigurationError(problems)
            self._checked = tenants
        return tenants

    def find_tenant(self, tenant_key: str) -> Tenant | None:
        find = getattr(self._source, "find_tenant", None)
        if find is not None:
            return cast("Tenant | None", find(tenant_key))
        return next((tenant for tenant in self.list_tenants() if tenant.key == tenant_key), None)


def _find_problems(tenants: Iterable[Tenant]) -> list[str]:
    problems: list[str] = []
    keys: set[str] = set()
    tenant_by_database: dict[tuple[str, ...], Tenant] = {}
    for tenant in tenants:
        if tenant.key in keys:
            problems.append(f"Tenant key {tenant.key!r} is listed twice. List each tenant once.")
            continue
        keys.add(tenant.key)
        if tenant.alias not in connections:
            known = ", ".join(map(repr, connections))
            problems.append(f"Tenant {tenant.key!r}: DATABASES has no alias {tenant.alias!r}. It has {known}.")
            continue
        try:
            database = (*_identify_database(tenant.alias), tenant.schema)
        except ImproperlyConfigured as exc:  # no such engine, or its driver is not installed
            problems.append(f"Tenant {tenant.key!r}: DATABASES[{tenant.alias!r}] cannot be used: {exc}")
            continue
        if tenant.schema and find_shared_schema(connections[tenant.alias]) is None:
            problems.append(
                f"Tenant {tenant.key!r} has a schema, but the ENGINE of DATABASES[{tenant.alias!r}] is not"
                " 'django_tenants.postgresql_backend'."
            )
        first = tenant_by_database.setdefault(database, tenant)
        if first is not tenant:
            problems.append(
                f"Tenants {first.key!r} (alias {first.alias!r}) and {tenant.key!r} (alias {tenant.alias!r}) lead to one"
                " database: both would schedule the same jobs. Give each tenant a database of its own."
            )
    return problems


def _identify_database(alias: str) -> tuple[str, ...]:
    """Return what two aliases share if they lead to one database, as far as the settings show it."""
    connection = connections[alias]
    database, options = connection.settings_dict, connection.settings_dict["OPTIONS"]
    name = str(database["NAME"])
    if isinstance(connection, SQLiteWrapper):
        return ("sqlite", f"{alias} in memory" if connection.is_in_memory_db() else os.path.realpath(name))
    host = "localhost" if database["HOST"] in _LOCAL_HOSTS else database["HOST"]
    port = str(database["PORT"] or _DEFAULT_PORTS.get(connection.vendor, ""))
    return (connection.vendor, host, port, name, *(str(options.get(option, "")) for option in _SERVER_OPTIONS))
