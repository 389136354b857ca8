"""PostgreSQL."""

from __future__ import annotations

from typing import Final

from django_leased_cron.database.tables import EDIT, JOB
from django_leased_cron.edit_triggers.watched import JOB_COLUMNS, SCHEDULES

# SECURITY DEFINER and the search path of the migration: an editor with another role or path must not fail here.
_FUNCTION: Final = f"""CREATE OR REPLACE FUNCTION leased_cron_note_edit() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_LEVEL = 'ROW' THEN
        INSERT INTO {EDIT} (kind, row_id, schema_name)
            VALUES (TG_ARGV[0], COALESCE(NEW.id, OLD.id), TG_TABLE_SCHEMA);
    ELSE
        INSERT INTO {EDIT} (kind, row_id, schema_name) VALUES (TG_ARGV[0], 0, TG_TABLE_SCHEMA);
    END IF;
    NOTIFY leased_cron;
    RETURN NULL;
END $$"""
_CHANGED: Final = " OR ".join(f"OLD.{column} IS DISTINCT FROM NEW.{column}" for column in JOB_COLUMNS)


def _trigger(name: str, *, table: str, event: str, kind: str, per: str = "ROW", when: str = "") -> list[str]:
    condition = f" WHEN ({when})" if when else ""
    scope = f"AFTER {event} ON {table} FOR EACH {per}{condition}"
    return [
        f"DROP TRIGGER IF EXISTS {name} ON {table}",
        f"CREATE TRIGGER {name} {scope} EXECUTE FUNCTION leased_cron_note_edit('{kind}')",
    ]


_TRIGGERS = [
    *_trigger("leased_cron_job_inserted", table=JOB, event="INSERT", kind="job"),
    *_trigger(
        "leased_cron_job_updated", table=JOB, event=f"UPDATE OF {', '.join(JOB_COLUMNS)}", kind="job", when=_CHANGED
    ),
    *_trigger("leased_cron_job_deleted", table=JOB, event="DELETE", kind="job"),
    *_trigger("leased_cron_job_truncated", table=JOB, event="TRUNCATE", kind="all", per="STATEMENT"),
]
for _kind, _table in SCHEDULES.items():
    _name = f"leased_cron_{_kind}"
    _TRIGGERS += _trigger(
        f"{_name}_updated", table=_table, event="UPDATE", kind=_kind, when="OLD.* IS DISTINCT FROM NEW.*"
    )
    _TRIGGERS += _trigger(f"{_name}_deleted", table=_table, event="DELETE", kind=_kind)
    _TRIGGERS += _trigger(f"{_name}_truncated", table=_table, event="TRUNCATE", kind="all", per="STATEMENT")

INSTALL: Final = (_FUNCTION, *_TRIGGERS)
UNINSTALL: Final = (
    *(statement for statement in _TRIGGERS if statement.startswith("DROP")),
    "DROP FUNCTION IF EXISTS leased_cron_note_edit()",
)
FIND: Final = f"""SELECT COUNT(*) FROM pg_trigger
    WHERE tgrelid = to_regclass('{JOB}') AND tgname LIKE 'leased_cron_job_%%' AND tgenabled IN ('O', 'A')"""
