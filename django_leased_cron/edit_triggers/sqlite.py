"""SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django_leased_cron.database.tables import EDIT, JOB
from django_leased_cron.edit_triggers.watched import JOB_COLUMNS, SCHEDULE_COLUMNS, SCHEDULES


def _trigger(name: str, *, table: str, event: str, kind: str, row: str, columns: Sequence[str] = ()) -> list[str]:
    changed = " OR ".join(f"OLD.{column} IS NOT NEW.{column}" for column in columns)
    when = f" WHEN {changed}" if changed else ""
    note = f"INSERT INTO {EDIT} (kind, row_id) VALUES ('{kind}', {row}.id)"
    return [
        f"DROP TRIGGER IF EXISTS {name}",
        f"CREATE TRIGGER {name} AFTER {event} ON {table} FOR EACH ROW{when} BEGIN {note}; END",
    ]


_TRIGGERS = [
    *_trigger("leased_cron_job_inserted", table=JOB, event="INSERT", kind="job", row="NEW"),
    *_trigger("leased_cron_job_updated", table=JOB, event="UPDATE", kind="job", row="NEW", columns=JOB_COLUMNS),
    *_trigger("leased_cron_job_deleted", table=JOB, event="DELETE", kind="job", row="OLD"),
]
for _kind, _table in SCHEDULES.items():
    _name, _columns = f"leased_cron_{_kind}", SCHEDULE_COLUMNS[_kind]
    _TRIGGERS += _trigger(f"{_name}_updated", table=_table, event="UPDATE", kind=_kind, row="NEW", columns=_columns)
    _TRIGGERS += _trigger(f"{_name}_deleted", table=_table, event="DELETE", kind=_kind, row="OLD")

INSTALL: Final = tuple(_TRIGGERS)
UNINSTALL: Final = tuple(statement for statement in _TRIGGERS if statement.startswith("DROP"))
FIND: Final = f"""SELECT COUNT(*) FROM sqlite_master
    WHERE type = 'trigger' AND tbl_name = '{JOB}' AND name LIKE 'leased_cron_job_%%'"""
