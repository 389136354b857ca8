"""Where tenants come from.

A tenant is the unit that has its own jobs, its own lease and its own beat scheduler. Each has a database of its own:
two tenants in one database would both schedule the same job rows.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast

from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.sqlite3.base import DatabaseWrapper as SQLiteWrapper
from django.dispatch import receiver
from django.utils.module_loading import import_string

from django_leased_cron.conf import LeasedCronSettings, get_settings
from django_leased_cron.exceptions import ConfigurationError
from django_leased_cron.setting_values import SETTING

SHIPPED_BACKENDS: Final = ("django_leased_cron.tenants.SingleTenant", "django_leased_cron.tenants.DatabaseTenants")
"""Those that are known to list their tenants without asking a database."""

LONGEST_KEY: Final = 191  # the longest indexed text of four-byte characters on older MySQL row formats

_LOCAL_HOSTS: Final = frozenset({"", "localhost", "127.0.0.1", "::1"})
_DEFAULT_PORTS: Final = {"postgresql": "5432", "mysql": "3306"}
_SERVER_OPTIONS: Final = ("service", "host", "hostaddr", "port", "unix_socket", "read_default_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant: the key of its lease, and the alias in ``DATABASES`` where its jobs and its lease are.

    Raises:
        ConfigurationError: the key cannot be one. It is part of task ids and log lines, where a line break would
            make two tenants look like one.
    """

    key: str
    alias: str

    def __post_init__(self) -> None:
        if not self.key:
            raise ConfigurationError([f"Tenant key {self.key!r} is empty. Give every tenant a name."])
        if len(self.key) > LONGEST_KEY:
            problem = f"Tenant key {self.key!r} has {len(self.key)} characters. Use at most {LONGEST_KEY}."
            raise ConfigurationError([problem])
        if not self.key.isprintable():
            raise ConfigurationError([f"Tenant key {self.key!r} has control characters. Use printable ones only."])


class TenantSource(Protocol):
    """What ``TENANTS["BACKEND"]`` names; it is called with ``TENANTS["OPTIONS"]`` as keyword arguments."""

    def list_tenants(self) -> Sequence[Tenant]:
        """Return the tenants as they are now.

        Called at every poll of every scheduler and at the start of every tracked run: keep it cheap.
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


def build_tenant_source(settings: LeasedCronSettings) -> TenantSource:
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
    return _CheckedTenants(cast(TenantSource, source))


@functools.cache
def get_tenant_source() -> TenantSource:
    """Return the project's source, built once."""
    return build_tenant_source(get_settings())


def find_tenant_alias(tenant_key: str) -> str | None:
    """Return the database alias of a tenant, or nothing if no such tenant is listed."""
    return next((tenant.alias for tenant in get_tenant_source().list_tenants() if tenant.key == tenant_key), None)


@receiver(setting_changed)
def _forget_source(*, setting: str, **_: object) -> None:
    if setting == SETTING:
        get_tenant_source.cache_clear()


class _CheckedTenants:
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
            database = _identify_database(tenant.alias)
        except ImproperlyConfigured as exc:  # no such engine, or its driver is not installed
            problems.append(f"Tenant {tenant.key!r}: DATABASES[{tenant.alias!r}] cannot be used: {exc}")
            continue
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
