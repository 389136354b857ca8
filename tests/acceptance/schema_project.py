"""A project of django-tenants with processes of its own: schemas, schedulers, a worker."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from django.db import connections

from tests.acceptance.brokers import RedisBroker
from tests.acceptance.databases import ServerDatabase
from tests.acceptance.processes import Process
from tests.acceptance.waiting import wait_until
from tests.servers import require_server

TASK: Final = "tests.schema_project.customers.tasks.note_schema"
LEASED_CRON: Final = {"LEASE_TTL": 3, "HEARTBEAT": 0.5, "POLL_INTERVAL": 0.2, "RESCUE_AFTER": 0.5, "PUBLISH_TIMEOUT": 2}
_CUSTOMERS: Final = "from tests.schema_project.customers.models import Customer"
_ANY_COLUMNS: Final = {
    "args": "[]",
    "kwargs": "{}",
    "headers": "{}",
    "description": "",
    "enabled": True,
    "one_off": False,
    "total_run_count": 0,
}


class SchemaProject:
    """Its database is migrated and has no schema but the shared one."""

    def __init__(self, cleanup: ExitStack) -> None:
        self._cleanup = cleanup
        self._numbers = itertools.count()
        self._name = f"leased_cron_schemas_{os.getpid()}"
        database = ServerDatabase(require_server("postgres"), self._name, cleanup, cuttable=False)
        broker = RedisBroker(require_server("redis"), self._name, cleanup, cuttable=False)
        self._alias = database.alias
        self._folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix=self._name)))
        self._notes = self._folder / "notes"
        self._notes.touch()
        self._environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.schema_project.settings",
            "SCHEMA_PROJECT_DATABASE_URL": database.url,
            "SCHEMA_PROJECT_BROKER_URL": broker.url,
            "SCHEMA_PROJECT_QUEUE": broker.queue,
            "SCHEMA_PROJECT_LEASED_CRON": json.dumps(LEASED_CRON),
            "SCHEMA_PROJECT_NOTES": str(self._notes),
        }
        self.manage("migrate_schemas", "--shared")

    def start(self, name: str, *arguments: str) -> Process:
        """Start ``python -m`` something in the project; it is killed in the end."""
        process = Process(name, ["-m", *arguments], environment=self._environment, log=self._folder / f"{name}.log")
        self._cleanup.callback(process.kill)
        return process

    def start_scheduler(self, name: str = "scheduler", *options: str) -> Process:
        process = self.start(name, "django", "run_leased_scheduler", *options)
        process.wait_for_line("Ready as")
        return process

    def start_worker(self) -> Process:
        """Start a worker of tenant-schemas-celery."""
        options = ["--pool", "solo", "--loglevel", "INFO", "--without-mingle", "--without-gossip"]
        worker = self.start("worker", "celery", "-A", "tests.schema_project", "worker", *options)
        worker.wait_for_line(" ready.")
        return worker

    def manage(self, *arguments: str) -> str:
        """Run a management command to its end; return what it wrote."""
        process = self.start(f"{arguments[0]}-{next(self._numbers)}", "django", *arguments)
        code = process.wait_for_exit(within_s=60)
        assert code == 0, process.read_log()
        return process.read_log()

    def run_code(self, code: str) -> str:
        """Run Python in the project; return what it printed."""
        return self.manage("shell", "--no-imports", "-c", code)

    def add_file(self, name: str, text: str) -> str:
        """Write a file beside the processes; return its path."""
        path = self._folder / name
        path.write_text(text)
        return str(path)

    def add_customers(self, *schemas: str) -> None:
        """Create schemas the way django-tenants does, with their tables."""
        self.run_code(f"{_CUSTOMERS}; [Customer(schema_name=name).save(verbosity=0) for name in {schemas!r}]")

    def drop_customer(self, schema: str) -> None:
        """Drop the schema, and then the customer."""
        self.run_code(f"{_CUSTOMERS}; Customer.objects.get(schema_name={schema!r}).delete(force_drop=True)")

    def add_job(self, schema: str, name: str = "note", *, every_s: int = 1, **columns: Any) -> int:
        """Add a job to a schema by plain SQL; return its id."""
        beat = f'"{schema}".django_celery_beat'
        interval = f"INSERT INTO {beat}_intervalschedule (every, period) VALUES (%s, 'seconds') RETURNING id"
        values = _ANY_COLUMNS | {"name": name, "task": TASK, "interval_id": self.fetch_one(interval, every_s)} | columns
        names, marks = ", ".join(values), ", ".join(["%s"] * len(values))
        insert = f"INSERT INTO {beat}_periodictask (date_changed, {names}) VALUES (now(), {marks}) RETURNING id"
        return int(self.fetch_one(insert, *values.values()))

    def execute(self, sql: str, *parameters: Any) -> None:
        with connections[self._alias].cursor() as cursor:
            cursor.execute(sql, parameters)

    def fetch(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with connections[self._alias].cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())

    def fetch_one(self, sql: str, *parameters: Any) -> Any:
        ((value,),) = self.fetch(sql, *parameters)
        return value

    def find_holders(self) -> dict[str, str]:
        """Return tenant to holder, from the shared schema."""
        return dict(self.fetch("SELECT tenant_key, holder_id FROM public.leased_cron_schedulerlease"))

    def count_sent(self, schema: str) -> int:
        sent = f"""SELECT COUNT(*) FROM "{schema}".leased_cron_occurrence WHERE sent_at_ms IS NOT NULL"""
        return int(self.fetch_one(sent))

    def wait_for_sent(self, schema: str, *, more: int = 1, within_s: float = 10.0) -> None:
        wanted = self.count_sent(schema) + more
        wait_until(lambda: self.count_sent(schema) >= wanted, f"{schema} to be sent", within_s=within_s)

    def read_notes(self) -> list[str]:
        """Return the schemas in which tasks ran."""
        return self._notes.read_text().split()
