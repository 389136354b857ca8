"""``leased_jobs run``, on every supported database, to the claim that dispatches what was asked for."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import CommandError
from django_celery_beat.models import PeriodicTask
from pytest_django import Settings

from django_leased_cron.core.message import build_publication
from django_leased_cron.core.occurrence import build_task_id
from django_leased_cron.models import JobPolicy, Occurrence, SchedulerLease, SchedulerProcess
from tests.integration.fixed_clock import NOW, NOW_MS, TTL_MS, fix_clock
from tests.integration.leased_jobs import OneTenant, create_crontab, create_interval, create_job, plan, read, run
from tests.integration.scheduling_bench import TENANT, SchedulingBench


@pytest.fixture
def tenant(bench: SchedulingBench, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> SchedulingBench:
    """Return the bench as the project's only tenant, for the command too."""
    options = {"key": TENANT, "alias": bench.alias}
    settings.LEASED_CRON = {"TENANTS": {"BACKEND": f"{OneTenant.__module__}.OneTenant", "OPTIONS": options}}
    fix_clock(monkeypatch)
    return bench


def test_requested_run_is_an_occurrence(alias: str) -> None:
    """Due now by the database's clock, with the task id that it will have."""
    job = create_job(alias, "report", crontab_id=create_crontab(alias).pk)
    task_id = build_task_id(tenant_key="default", job_id=job.pk, due_at_ms=NOW_MS)
    assert read("run", "report") == [{"tenant": "default", "job": "report", "due_at": NOW, "task_id": task_id}]
    occurrence = Occurrence.objects.using(alias).values(
        "job_id", "job_name", "due_at_ms", "state", "task_id", "delivery", "epoch", "attempt"
    )
    assert list(occurrence) == [
        {
            "job_id": job.pk,
            "job_name": "report",
            "due_at_ms": NOW_MS,
            "state": "requested",
            "task_id": task_id,
            "delivery": "at_least_once",
            "epoch": 0,
            "attempt": 0,
        }
    ]


def test_each_request_is_a_run_of_its_own(alias: str) -> None:
    """Neither another request nor a slot of the plan loses its moment to it."""
    job = create_job(alias, "tick", interval=create_interval(alias, 60))
    plan(alias, job, next_due_at_ms=NOW_MS + 1)
    due = [read("run", "tick")[0]["due_at"] for _ in range(2)]
    assert due == ["2027-01-15T08:00:00.000Z", "2027-01-15T08:00:00.002Z"]
    assert Occurrence.objects.using(alias).filter(state="requested").count() == 2


def test_run_is_delivered_as_the_policy_says(alias: str) -> None:
    """Else as the settings say."""
    job = create_job(alias, "pay", crontab_id=create_crontab(alias).pk)
    JobPolicy.objects.using(alias).create(job=job, delivery="at_most_once")
    run("run", "pay")
    assert Occurrence.objects.using(alias).get().delivery == "at_most_once"


def test_nobody_to_run_it_is_a_warning(alias: str) -> None:
    """On standard error, beside what is said for people or for scripts."""
    create_job(alias, "report", crontab_id=create_crontab(alias).pk)
    errors = io.StringIO()
    assert json.loads(run("run", "report", "--json", errors=errors))
    assert errors.getvalue() == (
        "Nobody schedules tenant 'default' at present: what was requested is sent once manage.py run_leased_scheduler"
        " runs.\n"
    )
    lease = {"tenant_key": "default", "holder_id": "web-1-7-cafe0123", "epoch": 1, "expires_at_ms": NOW_MS + TTL_MS}
    SchedulerLease.objects.using(alias).create(**lease)
    process = {"host": "web-1", "pid": 7, "version": "1", "started_at_ms": NOW_MS, "last_seen_at_ms": NOW_MS}
    SchedulerProcess.objects.using(alias).create(holder_id="web-1-7-cafe0123", **process)
    errors = io.StringIO()
    assert "1 requested. Whoever holds the lease sends what is requested at its next poll." in run(
        "run", "report", errors=errors
    )
    assert errors.getvalue() == ""


def test_unknown_job_runs_none(alias: str) -> None:
    """Not even those that are there."""
    create_job(alias, "report", crontab_id=create_crontab(alias).pk)
    with pytest.raises(CommandError, match=r"'raport'.* Did you mean 'report'") as failure:
        run("run", "report", "raport")
    assert failure.value.returncode == 2
    assert not Occurrence.objects.using(alias).exists()


def test_holder_claims_it_with_all_that_a_scheduled_firing_has(tenant: SchedulingBench) -> None:
    """Expiry, priority, headers and routing (which "run now" of django-celery-beat's admin leaves out), once."""
    columns = {
        "args": "[1]",
        "headers": '{"trace": "x"}',
        "priority": 7,
        "queue": "slow",
        "expire_seconds": 120,
    }
    job = tenant.every(3600, **columns)
    tenant.plan()
    [line] = read("run", job.name)
    [claimed] = tenant.claim(NOW_MS).claimed
    assert claimed.message is not None
    publication = build_publication(
        claimed, claimed.message, tenant_key=TENANT, now_ms=NOW_MS, storage_zone=tenant.zone
    )
    assert publication.task_id == line["task_id"]
    assert (publication.args, publication.priority, publication.queue) == ([1], 7, "slow")
    assert publication.expires_s == 120
    assert publication.headers["trace"] == "x"
    assert publication.headers["leased_cron"]["due_at"] == line["due_at"]
    assert not tenant.order(NOW_MS + 1000).requested
    assert tenant.state(job).next_due_at_ms == NOW_MS + 3_600_000


def test_disabled_and_paused_jobs_run_when_asked_to(tenant: SchedulingBench) -> None:
    """A person's wish is not a slot of the schedule."""
    disabled, paused = tenant.every(60, enabled=False), tenant.every(60)
    JobPolicy.objects.using(tenant.alias).create(job=paused, paused=True)
    run("run", disabled.name, paused.name)
    assert {claimed.job_id for claimed in tenant.claim(NOW_MS).claimed} == {disabled.pk, paused.pk}
    assert not PeriodicTask.objects.using(tenant.alias).get(pk=disabled.pk).enabled
