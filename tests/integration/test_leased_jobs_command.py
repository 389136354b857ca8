"""``leased_jobs``, on every supported database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django_celery_beat.models import PeriodicTask

from django_leased_cron.core.planning_inputs import SEPARATOR
from django_leased_cron.models import JobPolicy, JobState, TenantPolicy
from tests.integration.fixed_clock import NOW_MS, SECOND
from tests.integration.leased_jobs import create_clocked, create_crontab, create_interval, create_job, run
from tests.integration.leased_jobs import read as read_any


def read(*arguments: str) -> list[dict[str, Any]]:
    return read_any("list", *arguments)


def test_job_is_listed_with_its_plan(alias: str) -> None:
    """Every field, of a job that was planned and of one that was not."""
    daily = create_crontab(alias, timezone="Europe/Berlin")
    planned = create_job(alias, "close the shop", crontab_id=daily.pk)
    JobState.objects.using(alias).create(job=planned, next_due_at_ms=NOW_MS + SECOND, last_due_at_ms=NOW_MS - SECOND)
    clocked = create_clocked(alias, datetime(2027, 2, 1, 12, tzinfo=UTC))
    unplanned = create_job(alias, "land on the moon", clocked=clocked, one_off=True, enabled=False, task="nasa.land")
    assert read() == [
        {
            "tenant": "default",
            "job": "close the shop",
            "id": planned.pk,
            "task": "shop.close",
            "schedule": "crontab 30 5 * * * Europe/Berlin",
            "enabled": True,
            "paused": False,
            "next_due_at": "2027-01-15T08:00:01.000Z",
            "last_due_at": "2027-01-15T07:59:59.000Z",
            "error": "",
        },
        {
            "tenant": "default",
            "job": "land on the moon",
            "id": unplanned.pk,
            "task": "nasa.land",
            "schedule": "clocked at 2027-02-01T12:00:00.000Z",
            "enabled": False,
            "paused": False,
            "next_due_at": None,
            "last_due_at": None,
            "error": "",
        },
    ]


def test_jobs_are_sorted_by_name(alias: str) -> None:
    """As Python sorts, whatever the database's collation."""
    for name in ("b", "a", "C"):
        create_job(alias, name)
    assert [job["job"] for job in read()] == ["C", "a", "b"]


def test_malformed_row_hides_no_other(alias: str) -> None:
    """What no model could load is listed with its raw text and its error."""
    every_second = create_interval(alias, 1)
    mars = create_crontab(alias, timezone="Mars/Olympus")
    rows: dict[str, dict[str, Any]] = {
        "zone": {"crontab_id": mars.pk},
        "field": {"crontab_id": create_crontab(alias, hour="").pk},
        "none": {},
        "both": {"crontab_id": mars.pk, "interval": every_second},
        "separator": {"crontab_id": create_crontab(alias, hour=SEPARATOR).pk},
        "period": {"interval": create_interval(alias, 0, period="fortnights")},
        "good": {"interval": every_second},
    }
    for name, columns in rows.items():
        create_job(alias, name, **columns)
    JobState.objects.using(alias).create(
        job=PeriodicTask.objects.using(alias).get(name="none"), error="schedule '': choose one"
    )
    jobs = {job["job"]: job for job in read()}
    assert {name: job["schedule"] for name, job in jobs.items()} == {
        "zone": "crontab 30 5 * * * Mars/Olympus",
        "field": "crontab 30 - * * * UTC",
        "none": "no schedule",
        "both": "interval and crontab: choose one",
        "separator": "a field holds a control character; write it anew",
        "period": "every 0 fortnights",
        "good": "every second",
    }
    assert jobs["none"]["error"] == "schedule '': choose one"
    assert "error: schedule '': choose one" in run("list")


def test_paused_is_what_the_claim_would_skip(alias: str) -> None:
    """Because of the job or of its tenant, and by the database's clock."""
    for name, until_ms in (("now", None), ("still", NOW_MS + 1), ("over", NOW_MS)):
        JobPolicy.objects.using(alias).create(job=create_job(alias, name), paused=True, paused_until_ms=until_ms)
    create_job(alias, "never")
    assert {job["job"]: job["paused"] for job in read()} == {"now": True, "still": True, "over": False, "never": False}
    TenantPolicy.objects.using(alias).create(tenant_key="default", paused=True)
    assert all(job["paused"] for job in read())


def test_table_is_for_people(alias: str) -> None:
    """Aligned, local times, and no name that could move the cursor of a terminal."""
    job = create_job(alias, "a\x1b[2J\nb")
    JobState.objects.using(alias).create(job=job, next_due_at_ms=NOW_MS)
    header, line = run("list").splitlines()
    assert line[header.index("JOB") :].startswith("a?[2J?b ")
    assert line[header.index("NEXT DUE") :].startswith("2027-01-15 08:00:00 UTC  -")
    assert line.endswith("enabled")


def test_no_jobs_is_said(alias: str) -> None:
    """An empty answer is an answer."""
    assert read() == []
    assert run("list") == "No jobs.\n"


def test_tenants_can_be_chosen(alias: str) -> None:
    """An unknown one is an error that names it and the known ones."""
    create_job(alias, "a")
    assert [job["tenant"] for job in read("--tenant", "default")] == ["default"]
    with pytest.raises(CommandError) as failure:
        run("list", "--tenant", "default", "--tenant", "acme")
    assert failure.value.returncode == 2
    assert str(failure.value) == "There is no tenant 'acme'. Listed are: 'default'."


def test_missing_table_names_the_remedy(alias: str) -> None:
    """Not a traceback."""
    try:
        call_command("migrate", "leased_cron", "zero", database=alias, verbosity=0)
        with pytest.raises(CommandError, match=f"run: manage.py migrate --database={alias}") as failure:
            run("list")
        assert failure.value.returncode == 1
    finally:
        call_command("migrate", database=alias, verbosity=0)


def test_subcommand_is_required() -> None:
    """And named in the complaint."""
    with pytest.raises(CommandError, match="SUBCOMMAND"):
        run()
