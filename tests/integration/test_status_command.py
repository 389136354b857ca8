"""``leased_scheduler_status``, on every supported database."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django_celery_beat.models import IntervalSchedule, PeriodicTask
from freezegun import freeze_time
from pytest_django import Settings

from django_leased_cron import edit_triggers
from django_leased_cron import status as status_module
from django_leased_cron.models import JobState, Occurrence, SchedulerLease, SchedulerProcess, TenantPolicy
from django_leased_cron.tenants import Tenant
from tests.integration.fixed_clock import NOW, NOW_MS, SECOND, TTL_MS, fix_clock

HOLDER = "web-1-4711-9f3a2c1d"
NOBODY = {
    "tenant": "default",
    "holder_id": "",
    "live": False,
    "epoch": 0,
    "acquired_at": None,
    "expires_in_s": None,
    "paused": False,
    "jobs": 0,
    "next_due_at": None,
    "overdue": 0,
    "max_overdue_s": 0.0,
    "unconfirmed": 0,
}


class Elsewhere:
    """A project's own source of tenants."""

    tenants: tuple[Tenant, ...] = ()

    def list_tenants(self) -> tuple[Tenant, ...]:
        return self.tenants


@pytest.fixture
def alias(database_alias: str, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> str:
    """Return the database of the tenant ``default``, whose clock stands still."""
    settings.LEASED_CRON = {"TENANTS": {"OPTIONS": {"alias": database_alias}}}
    fix_clock(monkeypatch)
    return database_alias


def run(*arguments: str) -> str:
    output = io.StringIO()
    call_command("leased_scheduler_status", *arguments, stdout=output)
    return output.getvalue()


def fail(*arguments: str) -> tuple[int, str, str]:
    """Return exit code, output and complaint of a run that does not exit 0."""
    output = io.StringIO()
    with pytest.raises(CommandError) as failure:
        call_command("leased_scheduler_status", *arguments, stdout=output)
    return failure.value.returncode, output.getvalue(), str(failure.value)


def read(*arguments: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run("--json", *arguments))
    return document


def hold(alias: str, *, expires_in_ms: int = 20 * SECOND, seen_ago_ms: int | None = SECOND) -> None:
    SchedulerLease.objects.using(alias).create(
        tenant_key="default",
        holder_id=HOLDER,
        epoch=7,
        acquired_at_ms=NOW_MS - 3600 * SECOND,
        expires_at_ms=NOW_MS + expires_in_ms,
    )
    if seen_ago_ms is not None:
        report(alias, HOLDER, seen_ago_ms=seen_ago_ms)


def report(alias: str, holder_id: str, *, seen_ago_ms: int) -> None:
    SchedulerProcess.objects.using(alias).create(
        holder_id=holder_id,
        host="web-1",
        pid=4711,
        version="1.0",
        started_at_ms=NOW_MS - 7200 * SECOND,
        last_seen_at_ms=NOW_MS - seen_ago_ms,
        tenants=["default"],
    )


def plan(alias: str, *fires_in_ms: int, jitter_ms: int = 0) -> None:
    """Create jobs that fire at these times from now; due ``jitter_ms`` earlier."""
    # In bulk: what django-celery-beat notes of a save goes to the default database.
    IntervalSchedule.objects.using(alias).bulk_create([IntervalSchedule(every=1, period="days")])
    schedule = IntervalSchedule.objects.using(alias).get()
    for number, fire_in_ms in enumerate(fires_in_ms):
        job = PeriodicTask(name=f"job {number}", task="t", interval=schedule)
        PeriodicTask.objects.using(alias).bulk_create([job])
        job = PeriodicTask.objects.using(alias).get(name=job.name)
        fire_at_ms = NOW_MS + fire_in_ms
        JobState.objects.using(alias).create(job=job, next_due_at_ms=fire_at_ms - jitter_ms, fire_at_ms=fire_at_ms)


def test_tenant_that_nobody_ever_held(alias: str) -> None:
    """All fields are there before any scheduler was."""
    assert read() == {"now": NOW, "tenants": [NOBODY], "processes": []}
    assert "nobody" in run()
    assert "Start manage.py run_leased_scheduler" in run()
    code, _, complaint = fail("--check")
    assert code == 1
    assert "Tenant 'default': nobody holds its lease" in complaint


def test_tenant_with_a_live_holder(alias: str) -> None:
    """Who, since when, until when; jobs, what is next, what is unconfirmed; and the process itself."""
    hold(alias)
    plan(alias, 4 * SECOND, 90 * SECOND, jitter_ms=3 * SECOND)
    Occurrence.objects.using(alias).create(job_id=1, due_at_ms=NOW_MS - SECOND, state="claimed")
    Occurrence.objects.using(alias).create(job_id=1, due_at_ms=NOW_MS - 2 * SECOND, state="sent")
    assert read("--check") == {
        "now": NOW,
        "tenants": [
            {
                "tenant": "default",
                "holder_id": HOLDER,
                "live": True,
                "epoch": 7,
                "acquired_at": "2027-01-15T07:00:00.000Z",
                "expires_in_s": 20.0,
                "paused": False,
                "jobs": 2,
                "next_due_at": "2027-01-15T08:00:01.000Z",
                "overdue": 0,
                "max_overdue_s": 0.0,
                "unconfirmed": 1,
            }
        ],
        "processes": [
            {
                "holder_id": HOLDER,
                "host": "web-1",
                "pid": 4711,
                "version": "1.0",
                "started_at": "2027-01-15T06:00:00.000Z",
                "last_seen_at": "2027-01-15T07:59:59.000Z",
                "draining": False,
                "tenants": ["default"],
            }
        ],
    }
    text = run("--check")
    assert f"{HOLDER}  7" in text
    assert "2027-01-15 08:00:01 UTC (in 1.0 s)" in text
    assert "No problems" in text


@pytest.mark.parametrize(
    ("expires_in_ms", "seen_ago_ms", "complaint"),
    [
        (-45 * SECOND, SECOND, f"the lease of {HOLDER} ran out 45.0 s ago"),
        (0, SECOND, "ran out 0.0 s ago"),
        (SECOND, TTL_MS + 1, f"{HOLDER} holds its lease and no longer reports itself"),
        (SECOND, None, "no longer reports itself"),
    ],
)
def test_holder_without_a_sign_of_life(alias: str, expires_in_ms: int, seen_ago_ms: int | None, complaint: str) -> None:
    """A lease that has run out, or one whose process is silent, is held by nobody who works."""
    hold(alias, expires_in_ms=expires_in_ms, seen_ago_ms=seen_ago_ms)
    [tenant] = read()["tenants"]
    assert (tenant["holder_id"], tenant["live"]) == (HOLDER, False)
    assert f"{HOLDER} (not live)" in run()
    code, _, said = fail("--check")
    assert (code, complaint in said) == (1, True)


def test_process_that_was_not_seen_for_a_ttl_is_not_listed(alias: str) -> None:
    """The row of a killed process stays for a while."""
    report(alias, "seen", seen_ago_ms=TTL_MS)
    report(alias, "gone", seen_ago_ms=TTL_MS + 1)
    assert [process["holder_id"] for process in read()["processes"]] == ["seen"]


def test_overdue_jobs_fail_the_check_beyond_the_limit(alias: str) -> None:
    """What is due and unclaimed counts from the moment it should have fired; due right now is not overdue."""
    hold(alias)
    plan(alias, -61 * SECOND, -2 * SECOND, 0, 5 * SECOND, jitter_ms=3 * SECOND)
    [tenant] = read("--check", "--max-overdue", "61")["tenants"]
    assert (tenant["overdue"], tenant["max_overdue_s"]) == (2, 61.0)
    code, output, complaint = fail("--check", "--json")
    assert code == 1
    assert complaint.startswith("Tenant 'default': 2 jobs are overdue, by up to 61.0 s (limit 60 s). Look at ")
    assert json.loads(output)["tenants"] == [tenant]  # printed all the same
    assert complaint in run()


def test_pause_counts_until_its_end(alias: str) -> None:
    """By the database's clock."""
    policy = TenantPolicy.objects.using(alias).create(tenant_key="default", paused=True)
    assert read()["tenants"][0]["paused"] is True
    for until_ms, paused in ((NOW_MS + 1, True), (NOW_MS, False)):
        policy.paused_until_ms = until_ms
        policy.save()
        assert read()["tenants"][0]["paused"] is paused


def test_missing_table_names_the_remedy(alias: str) -> None:
    """With and without ``--check``."""
    try:
        call_command("migrate", "leased_cron", "zero", database=alias, verbosity=0)
        for arguments in ((), ("--check",), ("--json",)):
            code, output, complaint = fail(*arguments)
            assert (code, output) == (1, "")
            assert f"run: manage.py migrate --database={alias}" in complaint
    finally:
        call_command("migrate", database=alias, verbosity=0)


def make_unreachable(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lead to a port where nobody listens; SQLite to a folder that is not there."""
    for option, value in (("PORT", "1"), ("NAME", "/nowhere/db")):
        monkeypatch.setitem(connections[alias].settings_dict, option, value)


def test_database_that_is_away_is_named(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without ``--check``."""
    make_unreachable(alias, monkeypatch)
    for arguments in ((), ("--check",)):
        code, output, complaint = fail(*arguments)
        assert (code, output) == (1, "")
        assert f"Tenant 'default': database {alias!r}: " in complaint


@pytest.mark.parametrize("database_alias", ["sqlite"], indirect=True)
def test_database_that_is_away_hides_no_other_tenant(
    alias: str, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """The tenant that can be read is shown, and the exit code says that something is missing."""
    monkeypatch.setattr(Elsewhere, "tenants", (Tenant(key="a", alias="default"), Tenant(key="b", alias=alias)))
    settings.LEASED_CRON = {"TENANTS": {"BACKEND": f"{__name__}.Elsewhere"}}
    make_unreachable("default", monkeypatch)
    code, output, complaint = fail("--json")
    assert code == 1
    assert [tenant["tenant"] for tenant in json.loads(output)["tenants"]] == ["b"]
    assert "Tenant 'a': database 'default'" in complaint


@pytest.mark.parametrize("database_alias", ["sqlite"], indirect=True)
def test_absurd_clock_is_refused(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is called late by a clock that reads zero."""
    monkeypatch.setattr(status_module, "is_plausible", lambda reading_ms: False)
    code, _, complaint = fail()
    assert (code, f"its clock reads {NOW_MS}" in complaint) == (1, True)


@freeze_time("2026-03-29 01:00:00")
def test_without_tenants_there_is_nothing_to_complain_of(settings: Settings) -> None:
    """No database is asked; the time is this machine's."""
    settings.LEASED_CRON = {"TENANTS": {"BACKEND": f"{__name__}.Elsewhere"}}
    assert read("--check") == {"now": "2026-03-29T01:00:00.000Z", "tenants": [], "processes": []}
    assert "No tenants." in run("--check")


@pytest.mark.parametrize("limit", ["-1", "nan"])
def test_wrong_limit_is_a_usage_error(limit: str) -> None:
    """It names the option and the value."""
    code, _, complaint = fail(f"--max-overdue={limit}")
    assert (code, f"--max-overdue {float(limit)}" in complaint) == (2, True)


def test_wrong_setting_is_a_configuration_error(settings: Settings) -> None:
    """The commands run the system checks themselves: Django would exit with 1."""
    settings.LEASED_CRON = {"LEASE_TLL": 30}
    code, _, complaint = fail("--check")
    assert (code, "LEASE_TTL" in complaint) == (2, True)


@pytest.mark.parametrize(("many", "pace"), [(2, "at every poll"), (1, "as often as 5 % of one core allows")])
def test_missing_edit_triggers_are_shown(alias: str, monkeypatch: pytest.MonkeyPatch, many: int, pace: str) -> None:
    """To people, with what to do; scripts get what they always got."""
    monkeypatch.setattr(status_module, "_MANY_JOBS", many)
    plan(alias, SECOND, SECOND)
    assert "edit triggers" not in run()
    edit_triggers.uninstall(connections[alias])
    try:
        shown, document = run(), json.loads(run("--json"))
    finally:
        edit_triggers.install(connections[alias])
    assert f"edits are found by passes over all 2 jobs, {pace}" in shown
    assert f"manage.py migrate --database={alias}" in shown
    assert document["tenants"][0].keys() == NOBODY.keys()
