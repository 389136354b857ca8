"""``leased_jobs validate``, on every supported database."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from celery import Celery
from django.core.management import CommandError

from django_leased_cron.management.jobs import validation
from django_leased_cron.models import JobPolicy
from tests.integration.fixed_clock import NOW_MS
from tests.integration.leased_jobs import create_clocked, create_crontab, create_interval, create_job, plan, read, run

TASK = "shop.close"


@pytest.fixture(autouse=True)
def _task(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Celery("shop", set_as_current=False)

    @app.task(name=TASK, shared=False)
    def close() -> None: ...

    monkeypatch.setattr(validation, "current_app", app)


def find(*arguments: str) -> dict[str, tuple[str, str]]:
    """Return kind and detail of the finding about each job."""
    findings = {line["job"]: (line["problem"], line["detail"]) for line in read_findings(*arguments)}
    assert len(findings) == len(read_findings(*arguments))
    return findings


def read_findings(*arguments: str) -> list[dict[str, str]]:
    lines: list[dict[str, str]] = read("validate", *arguments, fails_with=1)
    return lines


def test_nothing_is_found_where_nothing_is_wrong(alias: str) -> None:
    """Jobs that are switched off are nobody's problem."""
    create_job(alias, "good", task=TASK, crontab_id=create_crontab(alias).pk)
    create_job(alias, "off", task="unknown", enabled=False)
    assert read("validate") == []
    assert run("validate") == "No problems found.\n"


def test_task_that_nobody_knows_is_found(alias: str) -> None:
    """With the one that was meant."""
    daily = create_crontab(alias)
    create_job(alias, "close", task="shop.clsoe", crontab_id=daily.pk)
    create_job(alias, "other", task="zzz", crontab_id=daily.pk)
    assert find() == {
        "close": (
            "unknown_task",
            "task 'shop.clsoe' is not registered in this project's Celery app. Did you mean 'shop.close'?",
        ),
        "other": (
            "unknown_task",
            "task 'zzz' is not registered in this project's Celery app. Is its module imported?",
        ),
    }


def test_rows_that_never_fire_are_found(alias: str) -> None:
    """Malformed, past, expired; once each."""
    daily = create_crontab(alias)
    create_job(alias, "fields", crontab_id=create_crontab(alias, month_of_year="2", day_of_month="30").pk)
    create_job(alias, "args", crontab_id=daily.pk, args="{}")
    create_job(alias, "none")
    create_job(alias, "expired", crontab_id=daily.pk, expires=datetime(2027, 1, 15, 8, tzinfo=UTC))
    create_job(alias, "past", clocked=create_clocked(alias, datetime(2027, 1, 15, 7, tzinfo=UTC)), one_off=True)
    found = find()
    assert {job: kind for job, (kind, _) in found.items()} == {
        "fields": "malformed",
        "args": "malformed",
        "none": "malformed",
        "expired": "expired",
        "past": "never_due",
    }
    assert found["args"][1] == "args: write a JSON array, such as [1, 2]"
    assert found["expired"][1] == "expires 2027-01-15 08:00:00 UTC has passed; switch it off or extend it"


def test_error_that_only_the_scheduler_found_is_told(alias: str) -> None:
    """While the row is the one it was found in."""
    job = create_job(alias, "close", crontab_id=create_crontab(alias).pk)
    plan(alias, job, next_due_at_ms=None, error="task: too large")
    assert find()["close"] == ("malformed", "task: too large")


def test_local_times_that_a_change_of_the_clocks_moves_are_found(alias: str) -> None:
    """Within a year, and before the job expires; not those of elapsed-time jobs."""
    half_past_two = {"minute": "30", "timezone": "Europe/Berlin"}
    wall = create_crontab(alias, **half_past_two, hour="2")
    create_job(alias, "wall", crontab_id=wall.pk)
    create_job(alias, "short", crontab_id=wall.pk, expires=datetime(2027, 3, 1, tzinfo=UTC))
    create_job(alias, "elapsed", crontab_id=create_crontab(alias, **half_past_two, hour="*").pk)
    assert read_findings() == [
        {
            "tenant": "default",
            "job": "wall",
            "problem": "clock_change",
            "detail": ("2027-03-28 02:30 is left out by the clocks of Europe/Berlin; it comes due at 2027-03-28 03:00"),
        },
        {
            "tenant": "default",
            "job": "wall",
            "problem": "clock_change",
            "detail": "2027-10-31 02:30 is read twice on the clocks of Europe/Berlin; it comes due the first time only",
        },
    ]


def test_herd_is_found(alias: str) -> None:
    """Of as many jobs as asked for; those with jitter are spread already."""
    daily, hourly = create_crontab(alias), create_interval(alias, 3600)
    for number in range(3):
        create_job(alias, f"job {number}", crontab_id=daily.pk)
    planned = create_job(alias, "planned", interval=hourly)
    plan(alias, planned, next_due_at_ms=NOW_MS + 1_800_999)
    spread = create_job(alias, "spread", crontab_id=daily.pk)
    JobPolicy.objects.using(alias).create(job=spread, jitter_s=60)
    assert read("validate") == []
    assert read("validate", "--herd", "5") == []
    [herd] = read_findings("--herd", "4")
    assert herd == {
        "tenant": "default",
        "job": "",
        "problem": "herd",
        "detail": (
            "4 jobs come due at 2027-01-16 05:30:00 UTC. Spread them by jitter: 'job 0', 'job 1', 'job 2', 'planned'"
        ),
    }


def test_findings_are_for_people_and_make_the_exit_code_1(alias: str) -> None:
    """A table, and their number at the end."""
    create_job(alias, "close", task="zzz", crontab_id=create_crontab(alias).pk)
    create_job(alias, "none", task=TASK)
    with pytest.raises(CommandError, match=r"^2 found\.$") as failure:
        run("validate")
    assert failure.value.returncode == 1


def test_task_module_that_cannot_be_imported_is_exit_code_2(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for the scheduler, which needs them too."""
    app = Celery("shop", set_as_current=False, include=["no_such_module"])
    monkeypatch.setattr(validation, "current_app", app)
    with pytest.raises(CommandError, match=r"A task module cannot be imported: .*no_such_module") as failure:
        run("validate")
    assert failure.value.returncode == 2
