"""Which tenants and jobs the arguments mean; a name that nobody has is an error that says what was meant."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence

from django.core.management.base import CommandError, CommandParser

from django_leased_cron.job_tools.instants import read_instant
from django_leased_cron.job_tools.reading import read_job_ids
from django_leased_cron.management.exit_codes import FOUND, misconfigured
from django_leased_cron.setting_values import suggestion
from django_leased_cron.tenants import Tenant

Chosen = Mapping[Tenant, Mapping[str, int]]
"""Ids by name, by tenant."""


def choose_tenants(listed: Sequence[Tenant], keys: Sequence[str]) -> Sequence[Tenant]:
    """Return the tenants named, or all, in order of their keys."""
    tenants = {tenant.key: tenant for tenant in sorted(listed, key=lambda tenant: tenant.key)}
    known = ", ".join(map(repr, tenants)) or "none"
    unknown = [
        f"There is no tenant {key!r}. {suggestion(key, tenants) or f'Listed are: {known}.'}"
        for key in keys
        if key not in tenants
    ]
    if unknown:
        raise misconfigured(unknown)
    return [tenant for key, tenant in tenants.items() if not keys or key in keys]


def choose_jobs(tenants: Sequence[Tenant], names: Sequence[str]) -> Chosen:
    """Return the jobs named, in order of their names, of each tenant that has any of them.

    Raises:
        CommandError: exits 2, for each name that no tenant has.
        StoreError: a tenant's database does not answer.
    """
    ids_by_tenant = {tenant: read_job_ids(tenant) for tenant in tenants}
    known = {name for ids in ids_by_tenant.values() for name in ids}
    unknown = [
        f"There is no job {name!r} in {_describe(tenants)}. {suggestion(name, known)}".rstrip()
        for name in names
        if name not in known
    ]
    if unknown:
        raise misconfigured(unknown)
    chosen = {
        tenant: {name: ids[name] for name in sorted(set(names)) if name in ids} for tenant, ids in ids_by_tenant.items()
    }
    return {tenant: ids for tenant, ids in chosen.items() if ids}


def refuse_nobody(tenants: Sequence[Tenant]) -> None:
    """Exit 1 where there is nobody to act on."""
    if not tenants:
        raise CommandError("No tenants are listed: there is nothing to act on.", returncode=FOUND)


def add_names(parser: CommandParser, *, nargs: str, help: str) -> None:
    parser.add_argument("names", nargs=nargs, metavar="NAME", help=help)


def as_argument(read: Callable[[str], int]) -> Callable[[str], int]:
    """Return a reader whose complaints argparse prints as they are."""

    def read_argument(text: str) -> int:
        try:
            return read(text)
        except ValueError as exc:
            raise argparse.ArgumentTypeError(str(exc)) from exc

    return read_argument


def _read_count(text: str) -> int:
    count = int(text) if text.isdecimal() else 0
    if count < 1:
        message = f"{text!r} is no number, 1 or more"
        raise ValueError(message)
    return count


instant = as_argument(read_instant)
count = as_argument(_read_count)


def _describe(tenants: Sequence[Tenant]) -> str:
    return f"tenant {tenants[0].key!r}" if len(tenants) == 1 else f"any of {len(tenants)} tenants"
