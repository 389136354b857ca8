"""A schema for each tenant: a project of django-tenants, with the workers of tenant-schemas-celery."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pytest_django import DjangoDbBlocker

from tests.acceptance.schema_project import SchemaProject
from tests.acceptance.waiting import wait_until

pytestmark = pytest.mark.timeout(180)  # each test migrates two schemas
SEVERE = ("ERROR", "CRITICAL", "Traceback")


@pytest.fixture
def project(django_db_blocker: DjangoDbBlocker) -> Iterator[SchemaProject]:
    with django_db_blocker.unblock(), ExitStack() as cleanup:
        yield SchemaProject(cleanup)


def test_run_each_tenants_jobs_in_its_schema(project: SchemaProject) -> None:
    """Two with a job of one name: the worker is in the right schema, and each schema has its own history."""
    project.add_customers("acme", "umbra")
    for schema in ("acme", "umbra"):
        project.add_job(schema, headers=json.dumps({"_schema_name": "public"}))
    project.add_job("acme", "disabled", enabled=False)
    project.start_worker()
    scheduler = project.start_scheduler()
    for schema in ("acme", "umbra"):
        done = f"""SELECT COUNT(*) FROM "{schema}".leased_cron_occurrence WHERE state = 'succeeded'"""
        wait_until(lambda done=done: project.fetch_one(done) >= 2, f"runs in {schema}", within_s=15)  # type: ignore[misc]
    ran = Counter(project.read_notes())
    assert set(ran) == {"acme", "umbra"}
    assert min(ran.values()) >= 2
    assert set(project.find_holders()) == {"acme", "umbra"}
    assert project.fetch("SELECT * FROM acme.leased_cron_schedulerlease") == []
    assert not any(word in scheduler.read_log() for word in SEVERE)


def test_add_and_drop_a_tenant_while_running(project: SchemaProject) -> None:
    """It is scheduled within a refresh, and released quietly when it is gone."""
    project.add_customers("acme")
    project.add_job("acme")
    scheduler = project.start_scheduler()
    project.wait_for_sent("acme")

    project.add_customers("umbra")
    project.add_job("umbra")
    project.wait_for_sent("umbra")

    project.drop_customer("umbra")
    wait_until(lambda: project.find_holders()["umbra"] == "", "umbra to be released", within_s=10)
    project.wait_for_sent("acme", more=2)
    assert project.find_holders()["acme"] != ""
    assert scheduler.is_alive


def test_break_one_tenants_schema(project: SchemaProject) -> None:
    """Whether a table is missing or a migration, the others go on; it says what to do, once."""
    project.add_customers("acme", "broken", "umbra")
    for schema in ("acme", "broken", "umbra"):
        project.add_job(schema)
    project.execute("DROP TABLE broken.leased_cron_jobstate")
    scheduler = project.start_scheduler()
    for schema in ("acme", "umbra"):
        project.wait_for_sent(schema, more=3)
    lines = [line for line in scheduler.read_log().splitlines() if "broken" in line and "ERROR" in line]
    assert len(lines) == 1, lines
    assert "migrate" in lines[0]
    late = "SELECT MAX(sent_at_ms - due_at_ms) FROM acme.leased_cron_occurrence WHERE state = 'sent'"
    assert project.fetch_one(late) < 500


def test_edit_one_tenants_job(project: SchemaProject) -> None:
    """By plain SQL in one of two schemas with the same ids: acted on at once, and the other's goes on."""
    project.add_customers("acme", "umbra")
    for schema in ("acme", "umbra"):
        project.add_job(schema, every_s=3600)
    project.start_scheduler()
    planned = "SELECT COUNT(*) FROM {}.leased_cron_jobstate WHERE next_due_at_ms IS NOT NULL"
    for schema in ("acme", "umbra"):
        wait_until(lambda s=schema: project.fetch_one(planned.format(s)), "a plan", within_s=10)  # type: ignore[misc]
    project.execute("UPDATE acme.django_celery_beat_intervalschedule SET every = 1")
    wait_until(lambda: project.count_sent("acme"), "the edit to be acted on", within_s=1 + 1 + 0.5)
    assert project.count_sent("umbra") == 0
    assert project.fetch("SELECT * FROM acme.leased_cron_jobedit") == []
    wait_until(
        lambda: project.fetch("SELECT * FROM public.leased_cron_jobedit") == [], "the notes to be gone", within_s=5
    )


def test_show_the_status_of_all_tenants(project: SchemaProject) -> None:
    """Leases from the shared schema, work from each tenant's own."""
    project.add_customers("acme", "umbra")
    for schema, jobs in (("acme", 1), ("umbra", 2)):
        for number in range(jobs):
            project.add_job(schema, f"note {number}", every_s=3600)
    project.start_scheduler()
    wait_until(lambda: all(project.find_holders().values()) and project.find_holders(), "leases", within_s=10)
    status = json.loads(project.manage("leased_scheduler_status", "--json"))
    assert [(each["tenant"], each["jobs"], each["live"]) for each in status["tenants"]] == [
        ("acme", 1, True),
        ("umbra", 2, True),
    ]
    assert len(status["processes"]) == 1


def test_look_after_the_jobs_of_one_tenant(project: SchemaProject) -> None:
    """List, pause, run, copy: each in the schema of the tenant that was named."""
    project.add_customers("acme", "umbra")
    for schema in ("acme", "umbra"):
        project.add_job(schema, every_s=3600)
    listed = json.loads(project.manage("leased_jobs", "list", "--json"))
    assert [(job["tenant"], job["job"]) for job in listed] == [("acme", "note"), ("umbra", "note")]

    project.manage("leased_jobs", "pause", "note", "--tenant", "acme")
    project.manage("leased_jobs", "run", "note", "--tenant", "acme")
    (entry,) = json.loads(project.manage("leased_jobs", "export", "--tenant", "acme"))
    copied = project.add_file("jobs.json", json.dumps([entry | {"tenant": "umbra", "job": "copied"}]))
    project.manage("leased_jobs", "import", copied)

    def count(table: str) -> list[int]:
        return [project.fetch_one(f"SELECT COUNT(*) FROM {schema}.{table}") for schema in ("acme", "umbra")]

    assert count("leased_cron_jobpolicy WHERE paused") == [1, 1]  # what was exported was paused
    assert count("leased_cron_occurrence WHERE state = 'requested'") == [1, 0]
    assert count("django_celery_beat_periodictask WHERE name = 'copied'") == [0, 1]


def test_see_no_other_tenant_in_the_admin_of_one(project: SchemaProject) -> None:
    """Leases and processes are everybody's; a tenant's pages show what concerns it, the public ones all."""
    project.add_customers("acme", "umbra")
    project.start_scheduler("one", "--tenant", "acme")
    project.start_scheduler("two", "--tenant", "umbra")
    wait_until(lambda: len(set(project.find_holders().values()) - {""}) == 2, "both leases", within_s=10)
    code = """
import json
from django.contrib import admin
from django.db import connection
from django_leased_cron.models import SchedulerLease, SchedulerProcess
def see(schema):
    connection.set_schema(schema)
    pages = [admin.site._registry[model].get_queryset(None) for model in (SchedulerLease, SchedulerProcess)]
    return [[row.tenant_key for row in pages[0].order_by("tenant_key")], len(pages[1])]
print(json.dumps({schema: see(schema) for schema in ("acme", "umbra", "public")}))
"""
    assert json.loads(project.run_code(code)) == {
        "acme": [["acme"], 1],
        "umbra": [["umbra"], 1],
        "public": [["acme", "umbra"], 2],
    }


def test_check_the_project(project: SchemaProject) -> None:
    """Each schema that lacks migrations is named, with the command that mends it."""
    project.add_customers("acme", "old")
    assert "No errors found." in project.manage("run_leased_scheduler", "--check")
    project.execute("DELETE FROM old.django_migrations WHERE app = 'leased_cron' AND name LIKE '0004%%'")
    check = project.start("check", "django", "run_leased_scheduler", "--check")
    assert check.wait_for_exit(within_s=30) == 1
    assert "Schema 'old': 1 unapplied migrations (leased_cron)" in check.read_log()
    assert "migrate_schemas --schema=old" in check.read_log()
    assert "'acme'" not in check.read_log()
