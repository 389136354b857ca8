"""``leased_jobs export`` and ``import``, on every supported database."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.schedules import crontab
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask
from freezegun import freeze_time
from pytest_django import Settings

from django_leased_cron.job_tools.transfer import importing
from django_leased_cron.management.jobs import transfer
from django_leased_cron.models import JobPolicy
from tests.integration.fixed_clock import NOW, NOW_MS
from tests.integration.leased_jobs import (
    TwoTenants,
    create_clocked,
    create_crontab,
    create_interval,
    create_job,
    plan,
    read,
    run,
)
from tests.integration.scheduling_bench import SchedulingBench

LAST_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = {
    "catch_up": "all",
    "catch_up_window_s": 60,
    "overlap": "skip",
    "longest_run_s": 3600,
    "jitter_s": 5,
    "delivery": "",
    "paused": True,
    "paused_by": "ann",
    "paused_reason": "stocktaking",
    "paused_until": "2027-01-15T08:00:00.000Z",
}
REPORT = {
    "tenant": "default",
    "job": "report",
    "task": "shop.report",
    "schedule": {
        "crontab": {
            "minute": "30",
            "hour": "5",
            "day_of_week": "*",
            "day_of_month": "*",
            "month_of_year": "*",
            "timezone": "Europe/Berlin",
        }
    },
    "enabled": True,
    "args": [1, "ä"],
    "kwargs": {"deep": [None]},
    "headers": {"trace": "x"},
    "queue": "slow",
    "exchange": None,
    "routing_key": None,
    "priority": 7,
    "expires": "2027-06-01T00:00:00.000Z",
    "expire_seconds": 60,
    "start_time": None,
    "one_off": False,
    "description": "Every morning.",
    "policy": POLICY,
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "jobs.json"


def write(source: Path, *entries: object) -> str:
    source.write_text(json.dumps(entries), encoding="utf-8")
    return str(source)


def import_entries(source: Path, *entries: object) -> dict[str, tuple[str, list[str]]]:
    """Return what became of each job."""
    lines = read("import", write(source, *entries))
    return {line["job"]: (line["action"], line["changed"]) for line in lines}


def refuse(source: Path, *entries: object) -> list[str]:
    """Return the complaints about entries that cannot be imported."""
    with pytest.raises(CommandError) as failure:
        run("import", write(source, *entries))
    assert failure.value.returncode == 2
    *complaints, last = str(failure.value).splitlines()
    assert last == "Nothing was imported."
    return complaints


def create_one_of_each(alias: str) -> None:
    report = create_job(
        alias,
        "report",
        task="shop.report",
        crontab_id=create_crontab(alias, timezone="Europe/Berlin").pk,
        args='[1, "\\u00e4"]',
        kwargs='{"deep": [null]}',
        headers='{"trace": "x"}',
        queue="slow",
        priority=7,
        expires=datetime(2027, 6, 1, tzinfo=UTC),
        expire_seconds=60,
        description="Every morning.",
    )
    columns = {key: value for key, value in POLICY.items() if key != "paused_until"}
    JobPolicy.objects.using(alias).create(job=report, **columns, paused_until_ms=NOW_MS)
    create_job(alias, "tick", interval=create_interval(alias, 90), enabled=False)
    create_job(alias, "once", clocked=create_clocked(alias, LAST_YEAR), one_off=True, start_time=LAST_YEAR)


def test_export_has_all_that_people_decide(alias: str) -> None:
    """Every key of a job with a policy; the schedules of the others."""
    create_one_of_each(alias)
    once, report, tick = json.loads(run("export"))
    assert report == REPORT
    assert once["schedule"] == {"clocked": {"clocked_time": "2026-01-01T00:00:00.000Z"}}
    assert (once["one_off"], once["start_time"]) == (True, "2026-01-01T00:00:00.000Z")
    assert tick["schedule"] == {"interval": {"every": 90, "period": "seconds"}}
    assert (tick["enabled"], tick["policy"]) == (False, None)
    assert json.loads(run("export", "tick", "--json")) == [tick]


def test_export_leaves_out_what_nobody_could_write_and_says_so(alias: str) -> None:
    """The rest is there, the exit code is 1."""
    create_one_of_each(alias)
    create_job(alias, "bad", crontab_id=create_crontab(alias, hour="25").pk, args="{")
    create_job(alias, "none")
    with pytest.raises(CommandError) as failure:
        run("export")
    assert failure.value.returncode == 1
    bad, none = str(failure.value).splitlines()
    assert bad.startswith("Tenant 'default', job 'bad', left out: args: is not JSON")
    assert none.startswith("Tenant 'default', job 'none', left out: schedule: choose one of interval, crontab,")


@pytest.mark.parametrize("levels", [101, 300, 5000])
def test_export_leaves_out_what_is_nested_too_deeply(alias: str, levels: int) -> None:
    """Too deep to be read, or to be written again: no reason to lose the others."""
    crontab_id = create_crontab(alias).pk
    create_job(alias, "deep", crontab_id=crontab_id, args="[" * levels + "]" * levels)
    create_job(alias, "good", crontab_id=crontab_id, args="[" * 100 + "]" * 100)
    output = io.StringIO()
    with pytest.raises(CommandError) as failure:
        call_command("leased_jobs", "export", stdout=output)
    assert failure.value.returncode == 1
    assert str(failure.value).startswith("Tenant 'default', job 'deep', left out: args: is nested too deeply")
    assert [entry["job"] for entry in json.loads(output.getvalue())] == ["good"]


def test_what_was_exported_comes_back(alias: str, source: Path) -> None:
    """Into an empty tenant: the same jobs."""
    create_one_of_each(alias)
    exported = run("export")
    for model in (JobPolicy, PeriodicTask, CrontabSchedule, IntervalSchedule):
        model._default_manager.using(alias)._raw_delete(alias)  # past signals that write to another database
    source.write_text(exported, encoding="utf-8")
    assert [line["action"] for line in read("import", str(source))] == ["created"] * 3
    assert run("export") == exported


def test_import_is_idempotent(alias: str, source: Path) -> None:
    """The second time nothing is written, and no schedule's row is added for a job that has its like."""
    create_one_of_each(alias)
    source.write_text(run("export"), encoding="utf-8")
    before = list(PeriodicTask.objects.using(alias).order_by("pk").values())
    assert [line["action"] for line in read("import", str(source))] == ["unchanged"] * 3
    assert list(PeriodicTask.objects.using(alias).order_by("pk").values()) == before
    tick = {"job": "tock", "task": "t", "schedule": {"interval": {"every": 90, "period": "seconds"}}}
    assert import_entries(source, tick) == {"tock": ("created", [])}
    assert IntervalSchedule.objects.using(alias).count() == 1


def test_what_an_entry_does_not_mention_stays(alias: str, source: Path) -> None:
    """Also within the policy."""
    create_one_of_each(alias)
    tick = PeriodicTask.objects.using(alias).get(name="tick")
    changed = import_entries(
        source,
        {"job": "report", "priority": 3, "policy": {"jitter_s": 9}},
        {"job": "tick", "enabled": True, "policy": {"catch_up": "skip"}},
    )
    assert changed == {"report": ("updated", ["priority", "policy"]), "tick": ("updated", ["enabled", "policy"])}
    report = json.loads(run("export", "report"))[0]
    assert report == {**REPORT, "priority": 3, "policy": {**POLICY, "jitter_s": 9}}
    assert PeriodicTask.objects.using(alias).get(name="tick").interval_id == tick.interval_id


def test_policy_is_taken_away_by_null(alias: str, source: Path) -> None:
    """The settings count again."""
    create_one_of_each(alias)
    assert import_entries(source, {"job": "report", "policy": None}) == {"report": ("updated", ["policy"])}
    assert not JobPolicy.objects.using(alias).exists()


def test_row_that_nobody_could_write_is_put_right(alias: str, source: Path) -> None:
    """By an entry that says all that is needed."""
    create_job(alias, "report", crontab_id=create_crontab(alias, hour="25").pk, args="{")
    assert refuse(source, {"job": "report", "enabled": True}) == [
        "Tenant 'default', job 'report': task is missing",
        "Tenant 'default', job 'report': schedule is missing",
    ]
    assert import_entries(source, REPORT)["report"][0] == "updated"
    assert json.loads(run("export")) == [REPORT]


def test_shared_schedule_is_not_changed_for_one_job(alias: str, source: Path) -> None:
    """The other jobs keep it."""
    shared = create_crontab(alias)
    for name in ("a", "b"):
        create_job(alias, name, crontab_id=shared.pk)
    import_entries(source, {"job": "a", "schedule": {"crontab": {"minute": "0", "hour": "6"}}})
    assert [job["schedule"] for job in read("list")] == ["crontab 0 6 * * * UTC", "crontab 30 5 * * * UTC"]


def test_job_may_change_its_kind_of_schedule(alias: str, source: Path) -> None:
    """It has one afterwards."""
    create_job(alias, "a", crontab_id=create_crontab(alias).pk)
    import_entries(source, {"job": "a", "schedule": {"interval": {"every": 5, "period": "minutes"}}})
    assert [job["schedule"] for job in read("list")] == ["every 5 minutes"]


def test_all_that_is_bad_is_said_at_once_and_nothing_is_imported(alias: str, source: Path) -> None:
    """By name, with the option and the reason."""
    daily = {"crontab": {"minute": "0", "hour": "4"}}
    complaints = refuse(
        source,
        {"job": "good", "task": "t", "schedule": daily},
        {"job": "options", "task": "t", "schedule": daily, "countdown": 3, "queu": "x"},
        {"job": "fields", "task": "t", "schedule": {"crontab": {"hour": "25"}}, "priority": 256, "args": {}},
        {"job": "kinds", "task": "t", "schedule": {**daily, "interval": {"every": 1, "period": "days"}}},
        {"job": "policy", "task": "t", "schedule": daily, "policy": {"catch_up": "never", "jitter": 3}},
        {"job": "good", "task": "t", "schedule": daily},
        {"task": "t", "schedule": daily},
        {"job": "instants", "task": "t", "schedule": {"clocked": {"clocked_time": "soon"}}, "expires": "late"},
        "a text",
        {"job": "x" * 201, "task": "t", "schedule": {"interval": {"every": 0, "period": "days", "offset": 1}}},
        {"job": "half", "task": "t", "schedule": {"interval": {"period": "days"}}},
    )
    said = "\n".join(complaints)
    for complaint in (
        "job 'options': there is no option 'countdown'",
        "job 'options': there is no option 'queu'. Did you mean 'queue'?",
        "job 'fields': crontab_hour '25': '25' is no number or name in range; numbers here are 0 to 23",
        "job 'fields': priority: Ensure this value is less than or equal to 255.",
        "job 'fields': args: must be a JSON array",
        "job 'kinds': schedule: choose one of interval, crontab, solar, clocked, with its fields",
        "job 'policy': policy: there is no option 'jitter'. Did you mean 'jitter_s'?; catch_up: Value 'never' is not a",
        "job 'good': is there twice",
        "job 'entry 7': job is missing",
        "job 'instants': clocked_time 'soon': must be a date and time",
        "job 'instants': expires: 'late' is no date and time such as 2026-03-29T01:00:00Z",
        "job 'entry 9': must be a JSON object",
        "interval has no field 'offset'; its fields are every, period",
        "job: Ensure this value has at most 200 characters (it has 201).",
        "job 'half': schedule: interval needs every",
    ):
        assert complaint in said
    assert read("list") == []


def test_unknown_tenant_is_named(alias: str, source: Path) -> None:
    """And those that are known."""
    complaint = "Job 'report': there is no tenant 'acme'. Chosen are: 'default'."
    assert refuse(source, {**REPORT, "tenant": "acme"}) == [complaint]


def test_error_of_the_database_leaves_nothing_behind(alias: str, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One transaction: the jobs that were written before it are gone again."""

    def fail(*arguments: object) -> None:
        raise OperationalError("disk full")

    monkeypatch.setattr(importing, "_write_policy", fail)
    with pytest.raises(CommandError, match="disk full") as failure:
        run("import", write(source, REPORT))
    assert failure.value.returncode == 1
    assert read("list") == []
    assert not CrontabSchedule.objects.using(alias).exists()


def test_dry_run_writes_nothing(alias: str, source: Path) -> None:
    """And says what it would."""
    create_job(alias, "tick", interval=create_interval(alias, 90))
    file = write(source, REPORT, {"job": "tick", "priority": 1})
    table = run("import", file, "--dry-run")
    assert table.split()[:4] == ["TENANT", "JOB", "ACTION", "CHANGED"]
    assert "Nothing was written: a dry run." in table
    assert [(line["job"], line["action"]) for line in read("import", file, "--dry-run")] == [
        ("report", "created"),
        ("tick", "updated"),
    ]
    assert [job["job"] for job in read("list")] == ["tick"]
    assert PeriodicTask.objects.using(alias).get().priority is None


def test_standard_input_is_a_file(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``export | import -``."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps([REPORT])))
    assert [line["action"] for line in read("import", "-")] == ["created"]


@pytest.mark.parametrize(
    ("text", "complaint", "code"),
    [
        ("{", "is not JSON", 2),
        ("[" * 100_000, "is nested too deeply", 2),
        ("{}", "must be a JSON array of jobs, as leased_jobs export writes it", 2),
        ("[]", "There is no job to import.", 1),
    ],
)
def test_file_without_jobs_is_an_error(alias: str, source: Path, text: str, complaint: str, code: int) -> None:
    """That names it."""
    source.write_text(text, encoding="utf-8")
    with pytest.raises(CommandError, match=complaint) as failure:
        run("import", str(source))
    assert failure.value.returncode == code


def test_missing_file_is_an_error(alias: str, source: Path) -> None:
    """Of usage."""
    with pytest.raises(CommandError, match="No such file") as failure:
        run("import", str(source))
    assert failure.value.returncode == 2


def test_local_time_is_stored_where_use_tz_is_off(alias: str, source: Path, settings: Settings) -> None:
    """And comes back as the same instant."""
    settings.USE_TZ = False
    settings.TIME_ZONE = "Asia/Shanghai"
    clocked = {"clocked": {"clocked_time": "2027-02-01T00:00:00.000Z"}}
    entry = {"job": "a", "task": "t", "schedule": clocked, "expires": "2027-06-01T00:00:00.000Z", "one_off": True}
    import_entries(source, entry)
    [job] = json.loads(run("export"))
    assert (job["schedule"], job["expires"]) == (clocked, "2027-06-01T00:00:00.000Z")
    assert PeriodicTask.objects.using(alias).get().expires.isoformat() == "2027-06-01T08:00:00"
    assert import_entries(source, entry) == {"a": ("unchanged", [])}


class TestPlanning:
    """What the scheduler makes of it."""

    def test_new_and_changed_jobs_never_fire_for_the_past(
        self, bench: SchedulingBench, source: Path, settings: Settings
    ) -> None:
        """Not even in a tenant's first term ever, which goes on from last runs: those are of another timetable."""
        alias = bench.alias
        settings.LEASED_CRON = {"TENANTS": {"OPTIONS": {"alias": alias}}}
        moved = bench.every(86_400, name="moved", last_run_at=LAST_YEAR)
        kept = bench.every(86_400, name="kept", last_run_at=LAST_YEAR)
        enabled = bench.every(86_400, name="enabled", last_run_at=LAST_YEAR, enabled=False)
        hourly = {"interval": {"every": 1, "period": "hours"}}
        with freeze_time(NOW):
            import_entries(
                source,
                {"job": "moved", "schedule": hourly},
                {"job": "enabled", "enabled": True},
                {"job": "kept", "priority": 1},
                {"job": "new", "task": "t", "schedule": hourly},
            )
        bench.plan(NOW_MS, first_term=True)
        new = PeriodicTask.objects.using(alias).get(name="new")
        assert bench.state(moved).next_due_at_ms == bench.state(new).next_due_at_ms == NOW_MS + 3_600_000
        assert bench.state(enabled).next_due_at_ms == NOW_MS + 86_400_000
        kept_due = bench.state(kept).next_due_at_ms
        assert kept_due is not None
        assert kept_due < NOW_MS

    def test_job_that_is_planned_keeps_its_last_run(self, alias: str, source: Path) -> None:
        """It is history then, and no scheduler starts from it."""
        job = create_job(alias, "tick", interval=create_interval(alias, 90), last_run_at=LAST_YEAR)
        plan(alias, job, next_due_at_ms=NOW_MS)
        import_entries(source, {"job": "tick", "schedule": {"interval": {"every": 5, "period": "minutes"}}})
        assert PeriodicTask.objects.using(alias).get().last_run_at == LAST_YEAR


class TestBeatSchedule:
    @pytest.fixture
    def app(self, monkeypatch: pytest.MonkeyPatch) -> Celery:
        app = Celery("project", set_as_current=False)
        app.conf.update(timezone="Europe/Berlin")
        monkeypatch.setattr(transfer, "current_app", app)
        return app

    def test_entries_become_jobs(self, alias: str, app: Celery) -> None:
        """Once; whether they are enabled is then left to the admin."""
        options = {"queue": "slow", "expires": timedelta(minutes=2), "headers": {"a": 1}}
        app.conf.beat_schedule = {
            "report": {"task": "shop.report", "schedule": crontab(hour=5, minute=[0, 30]), "options": options},
            "tick": {"task": "shop.tick", "schedule": 90, "args": (1, 2)},
        }
        assert [line["action"] for line in read("import", "--from-settings")] == ["created", "created"]
        PeriodicTask.objects.using(alias).filter(name="tick").update(enabled=False)
        assert [line["action"] for line in read("import", "--from-settings")] == ["unchanged", "unchanged"]
        report, tick = json.loads(run("export"))
        assert report["schedule"]["crontab"] == {
            "minute": "0,30",
            "hour": "5",
            "day_of_week": "*",
            "day_of_month": "*",
            "month_of_year": "*",
            "timezone": "Europe/Berlin",
        }
        assert (report["queue"], report["expire_seconds"], report["headers"]) == ("slow", 120, {"a": 1})
        assert (tick["args"], tick["enabled"]) == ([1, 2], False)

    def test_entry_that_loses_an_option_loses_it_in_the_job(self, alias: str, app: Celery) -> None:
        """What beat's entry does not mention, it does without."""
        entry: Mapping[str, Any] = {"task": "shop.tick", "schedule": 90}
        app.conf.beat_schedule = {"tick": {**entry, "args": [1], "options": {"queue": "slow"}}}
        run("import", "--from-settings")
        app.conf.beat_schedule = {"tick": entry}
        assert read("import", "--from-settings")[0]["changed"] == ["args", "queue"]

    def test_what_is_no_dict_is_an_error(self, alias: str, app: Celery) -> None:
        """Of the configuration."""
        app.conf.update(beat_schedule=5)
        with pytest.raises(CommandError, match="beat_schedule is of type 'int'") as failure:
            run("import", "--from-settings")
        assert failure.value.returncode == 2

    def test_options_without_a_column_are_refused_by_name(self, alias: str, app: Celery) -> None:
        """With all other complaints; none is imported."""
        app.conf.beat_schedule = {
            "good": {"task": "t", "schedule": 60},
            "options": {"task": "t", "schedule": 60, "options": {"countdown": 3, "link": None}},
            "keys": {"task": "t", "schedule": 60, "relative": True, "last_run_at": None},
            "schedule": {"task": "t", "schedule": "hourly", "args": [object]},
        }
        with pytest.raises(CommandError) as failure:
            run("import", "--from-settings")
        assert failure.value.returncode == 2
        said = str(failure.value)
        assert "job 'options': options: a job has no column for 'countdown', 'link'; it has queue," in said
        assert "job 'keys': there is no option 'last_run_at'" in said
        assert "job 'keys': relative:" in said
        assert "job 'schedule': schedule: 'hourly' is no interval, crontab, solar or clocked schedule" in said
        assert "job 'schedule': args: cannot be written as JSON" in said
        assert "is missing" not in said
        assert "'good'" not in said
        assert read("list") == []


@pytest.mark.parametrize("database_alias", ["sqlite"], indirect=True)
class TestTenants:
    def test_entry_without_a_tenant_needs_one_to_be_chosen(self, alias: str, source: Path, settings: Settings) -> None:
        """Where there are several."""
        settings.LEASED_CRON = {"TENANTS": {"BACKEND": f"{TwoTenants.__module__}.TwoTenants"}}
        entry = {key: value for key, value in REPORT.items() if key != "tenant"}
        file = write(source, entry)
        with pytest.raises(CommandError, match=r"Job 'report' names no tenant\. Choose") as failure:
            run("import", file)
        assert failure.value.returncode == 2
        assert [line["tenant"] for line in read("import", file, "--tenant", "acme")] == ["acme"]
