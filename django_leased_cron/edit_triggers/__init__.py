"""Triggers that note which rows were edited, so that a scheduler need not compare all jobs to find one edit.

Every edit that may change when a job is due (or what is wrong with it) inserts a row into ``leased_cron_jobedit``, in
the editor's own transaction: it is seen when that commits, not before, by whatever path the edit came. An insert of
one's own meets no other editor's lock. Where tenants have schemas of their own, the notes of all are in the one that
they share, and one query finds whose jobs were edited. On PostgreSQL an edit is also announced with NOTIFY, never a
dispatch: what the scheduler itself writes changes none of the columns that are watched.

The triggers are a convenience. Where they cannot be installed (no privilege), were lost (SQLite rebuilds a table that
is altered, without its triggers) or do not fire (a restore with triggers off), the scheduler's passes over all jobs
still find every edit, later or at a higher price. Installing them is itself noted: what was edited before, by a data
migration after such a rebuild, is looked for at once.
"""

from __future__ import annotations

from collections.abc import Collection
from types import ModuleType
from typing import Final

from django.db import Error as DjangoDatabaseError
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_leased_cron.database import build_dialect
from django_leased_cron.database.session import Session, SessionPool
from django_leased_cron.database.tables import EDIT, JOB
from django_leased_cron.edit_triggers import mysql, postgres, sqlite
from django_leased_cron.edit_triggers.watched import SCHEDULES
from django_leased_cron.schema_settings import find_current_schema

_TRIGGERS_ON_JOBS: Final = 3
_VENDORS: Final[dict[str, ModuleType]] = {"postgresql": postgres, "mysql": mysql, "sqlite": sqlite}


def install(connection: BaseDatabaseWrapper) -> None:
    """Install the triggers, or replace them, and note that all jobs are to be looked at.

    Raises:
        django.db.Error: the driver's errors, as Django's.
    """
    _run(connection, "INSTALL")
    notes, schema = build_dialect(connection.alias).shared(EDIT), find_current_schema(connection)
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {notes} (kind, row_id, schema_name) VALUES ('all', 0, %s)", [schema])


def uninstall(connection: BaseDatabaseWrapper) -> None:
    """Remove the triggers: without their table every edit would fail."""
    _run(connection, "UNINSTALL")


def try_install(alias: str) -> str | None:
    """Install the triggers if both sides' tables are there; return why it could not be done, if it could not."""
    connection = connections[alias]
    wanted = {EDIT, JOB, *SCHEDULES.values()}
    if connection.vendor not in _VENDORS or not wanted <= set(connection.introspection.table_names()):
        return None
    try:
        install(connection)
    except DjangoDatabaseError as exc:
        return str(exc).strip()
    return None


def find_triggers(reader: SessionPool | Session) -> bool:
    """Return whether the triggers on jobs are there and fire; raises ``StoreError``."""
    ((found,),) = reader.glance(_VENDORS[reader.dialect.vendor].FIND)
    return int(found) >= _TRIGGERS_ON_JOBS


def find_edited_schemas(pool: SessionPool) -> Collection[str]:
    """Return the schemas whose edits nobody has planned yet, in one query for all of them; raises ``StoreError``."""
    return {name for (name,) in pool.glance(f"SELECT DISTINCT schema_name FROM {pool.dialect.shared(EDIT)}")}


def _run(connection: BaseDatabaseWrapper, what: str) -> None:
    vendor = _VENDORS.get(connection.vendor)
    statements = getattr(vendor, what, ())
    notes = build_dialect(connection.alias).shared(EDIT) if statements else EDIT
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement.replace(EDIT, notes))
