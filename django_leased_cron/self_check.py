"""Everything that can be found wrong before scheduling starts, as sentences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from celery import current_app
from django.core import checks
from django.db import Error as DjangoDatabaseError
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from django_leased_cron.code_schedule.mode import read_mode
from django_leased_cron.conf import LeasedCronSettings
from django_leased_cron.core.clock import SystemClock
from django_leased_cron.exceptions import ConfigurationError
from django_leased_cron.job_tools.transfer.beat_schedule import read_beat_schedule
from django_leased_cron.publishing import build_publisher
from django_leased_cron.tenants import Tenant, entered

_OUR_APPS = ("leased_cron", "django_celery_beat")


def find_configuration_problems() -> list[str]:
    """Return what Django's system checks call an error, without asking any server."""
    return _describe(checks.run_checks())


def find_warnings() -> list[str]:
    """Return what this app's own system checks warn of, without asking any server."""
    messages = checks.run_checks()
    ours = [message for message in messages if str(message.id).startswith("leased_cron.") and not message.is_serious()]
    return [str(message) for message in ours if not message.is_silenced()]


def find_all_problems(settings: LeasedCronSettings, tenants: Sequence[Tenant]) -> list[str]:
    """Return what ``--check`` finds: configuration, and what databases and broker say now."""
    problems = find_configuration_problems()
    by_alias: defaultdict[str, list[Tenant]] = defaultdict(list)
    for tenant in tenants:
        by_alias[tenant.alias].append(tenant)
    for alias, here in by_alias.items():
        problems += _find_database_problems(alias, here)
    return [*problems, *_find_sync_problems(), *_find_broker_problems(settings)]


def _find_database_problems(alias: str, tenants: Sequence[Tenant]) -> list[str]:
    connection = connections[alias]
    try:
        connection.ensure_connection()
        problems = _describe(checks.run_checks(tags=[checks.Tags.database], databases=[alias]))
        loader = MigrationLoader(connection)
        for tenant in tenants:
            with entered(tenant):
                problems += _find_unapplied(tenant, MigrationRecorder(connection), loader)
    except DjangoDatabaseError as exc:
        return [f"Database {alias!r} does not answer: {str(exc).strip()}"]
    finally:
        connection.close()
    return problems


def _find_unapplied(tenant: Tenant, recorder: MigrationRecorder, loader: MigrationLoader) -> Iterator[str]:
    applied = recorder.applied_migrations()
    wanted = {
        key for leaf in loader.graph.leaf_nodes() if leaf[0] in _OUR_APPS for key in loader.graph.forwards_plan(leaf)
    }
    missing = [key for key in wanted if key not in applied]
    if not missing:
        return
    apps = ", ".join(sorted({app for app, _ in missing}))
    if tenant.schema:
        command = f"manage.py migrate_schemas --schema={tenant.schema}"
        yield f"Schema {tenant.schema!r}: {len(missing)} unapplied migrations ({apps}). Run: {command}"
    else:
        command = f"manage.py migrate --database={tenant.alias}"
        yield f"Database {tenant.alias!r}: {len(missing)} unapplied migrations ({apps}). Run: {command}"


def _find_sync_problems() -> list[str]:
    problems: list[str] = []
    for read in (read_mode, read_beat_schedule):
        try:
            read(current_app)
        except ConfigurationError as exc:
            problems += exc.problems
    return problems


def _find_broker_problems(settings: LeasedCronSettings) -> list[str]:
    try:
        publisher = build_publisher(current_app, SystemClock(), publish_timeout_s=settings.publish_timeout_s)
    except ConfigurationError as exc:
        return list(exc.problems)
    except ImportError as exc:
        return [f"The broker's library or a task module cannot be imported: {exc}"]
    try:
        answering = publisher.is_answering()
    finally:
        publisher.close()
    broker = current_app.connection_for_write().as_uri()  # without its password
    return [] if answering else [f"The broker {broker} does not answer."]


def _describe(messages: Iterable[checks.CheckMessage]) -> list[str]:
    serious = [message for message in messages if message.is_serious() and not message.is_silenced()]
    return [str(message) for message in serious]
