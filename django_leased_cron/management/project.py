"""What a command needs to know of the project before it does anything."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.management.base import CommandError
from django.db import Error as DjangoDatabaseError

from django_leased_cron.exceptions import ConfigurationError
from django_leased_cron.management.exit_codes import FOUND, misconfigured
from django_leased_cron.self_check import find_configuration_problems
from django_leased_cron.tenants import Tenant, get_tenant_source


def list_tenants() -> Sequence[Tenant]:
    """Return the tenants of a project whose configuration has no problem.

    Raises:
        CommandError: exits 2, with every problem of the configuration; 1 where a source of the project's own asks a
            database that does not answer.
    """
    problems = find_configuration_problems()
    if problems:
        raise misconfigured(problems)
    try:
        return get_tenant_source().list_tenants()
    except ConfigurationError as exc:
        raise misconfigured(list(exc.problems)) from exc
    except DjangoDatabaseError as exc:
        raise CommandError(f"The tenants cannot be listed: {str(exc).strip()}", returncode=FOUND) from exc
