"""MySQL and MariaDB.

TRUNCATE fires no trigger there, so nobody relies on triggers while there is no job at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django_leased_cron.database.tables import EDIT, JOB
from django_leased_cron.edit_triggers.watched import JOB_COLUMNS, SCHEDULE_COLUMNS, SCHEDULES


def _note(kind: str, row: str) -> str:
    return f"INSERT INTO {EDIT} (kind, row_id) VALUES ('{kind}', {row}.id)"


def _trigger(name: str, *, table: str, event: str, body: str) -> list[str]:
    return [
        f"DROP TRIGGER IF EXISTS {name}",
        f"CREATE TRIGGER {name} AFTER {event} ON {table} FOR EACH ROW {body}",
    ]


def _if_changed(columns: Sequence[str], note: str) -> str:
    # As bytes: the usual collations take an edit of case for none.
    same = " AND ".join(f"CAST(OLD.{column} AS BINARY) <=> CAST(NEW.{column} AS BINARY)" for column in columns)
    return f"BEGIN IF NOT ({same}) THEN {note}; END IF; END"


_TRIGGERS = [
    *_trigger("leased_cron_job_inserted", table=JOB, event="INSERT", body=_note("job", "NEW")),
    *_trigger("leased_cron_job_updated", table=JOB, event="UPDATE", body=_if_changed(JOB_COLUMNS, _note("job", "NEW"))),
    *_trigger("leased_cron_job_deleted", table=JOB, event="DELETE", body=_note("job", "OLD")),
]
for _kind, _table in SCHEDULES.items():
    _changed = _if_changed(SCHEDULE_COLUMNS[_kind], _note(_kind, "NEW"))
    _TRIGGERS += _trigger(f"leased_cron_{_kind}_updated", table=_table, event="UPDATE", body=_changed)
    _TRIGGERS += _trigger(f"leased_cron_{_kind}_deleted", table=_table, event="DELETE", body=_note(_kind, "OLD"))

INSTALL: Final = tuple(_TRIGGERS)
UNINSTALL: Final = tuple(statement for statement in _TRIGGERS if statement.startswith("DROP"))
FIND: Final = f"""SELECT COUNT(*) FROM information_schema.triggers WHERE trigger_schema = DATABASE()
    AND event_object_table = '{JOB}' AND trigger_name LIKE 'leased_cron_job_%%'
    AND EXISTS (SELECT 1 FROM {JOB})"""
