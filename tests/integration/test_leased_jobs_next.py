"""``leased_jobs next``, on every supported database."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.core.management import CommandError
from django_celery_beat.models import PeriodicTask

from django_leased_cron.core.jitter import jittered
from django_leased_cron.display import show_duration
from django_leased_cron.models import JobPolicy, SchedulerLease, TenantPolicy
from tests.integration.fixed_clock import NOW_MS, SECOND
from tests.integration.leased_jobs import create_clocked, create_crontab, create_interval, create_job, plan, read, run

HOUR = 3600 * SECOND


def read_times(*arguments: str) -> list[str]:
    return [line["due_at"] for line in read("next", *arguments)]


def read_notes(*arguments: str) -> list[str]:
    return [line["note"] for line in read("next", *arguments)]


def test_due_times_are_listed_by_job_and_time(alias: str) -> None:
    """Every field, and ten of each where nothing else is asked for."""
    daily = create_crontab(alias, timezone="Asia/Kolkata")
    create_job(alias, "b", crontab_id=daily.pk)
    create_job(alias, "a", crontab_id=daily.pk)
    lines = read("next")
    assert [line["job"] for line in lines] == ["a"] * 10 + ["b"] * 10
    assert lines[:2] == [
        {
            "tenant": "default",
            "job": "a",
            "due_at": "2027-01-16T00:00:00.000Z",
            "local": "2027-01-16T05:30:00+05:30",
            "note": "",
        },
        {
            "tenant": "default",
            "job": "a",
            "due_at": "2027-01-17T00:00:00.000Z",
            "local": "2027-01-17T05:30:00+05:30",
            "note": "",
        },
    ]


def test_names_choose_jobs(alias: str) -> None:
    """And their number, each a fixed number of times."""
    for name in ("a", "b", "c"):
        create_job(alias, name, interval=create_interval(alias, 3600))
    lines = read("next", "c", "a", "c", "-n", "2")
    assert [line["job"] for line in lines] == ["a", "a", "c", "c"]


def test_plan_comes_first(alias: str) -> None:
    """The cadence of an interval is the plan's, and an overdue time is shown as such."""
    job = create_job(alias, "tick", interval=create_interval(alias, 3600))
    plan(alias, job, next_due_at_ms=NOW_MS - 1500)
    lines = read("next", "tick", "-n", "3")
    assert [line["due_at"] for line in lines] == [
        "2027-01-15T07:59:58.500Z",
        "2027-01-15T08:59:58.500Z",
        "2027-01-15T09:59:58.500Z",
    ]
    assert [line["note"] for line in lines] == ["overdue", "", ""]
    assert lines[0]["local"] == "2027-01-15T07:59:58.500+00:00"


def test_edited_job_is_shown_as_it_will_be_planned(alias: str) -> None:
    """Not as it was planned before the edit that no scheduler has seen yet."""
    job = create_job(alias, "report", crontab_id=create_crontab(alias).pk)
    plan(alias, job, next_due_at_ms=NOW_MS + HOUR)
    PeriodicTask.objects.using(alias).filter(pk=job.pk).update(crontab_id=create_crontab(alias, hour="9").pk)
    assert read_times("report", "-n", "1") == ["2027-01-15T09:30:00.000Z"]


def test_unplanned_interval_counts_from_now(alias: str) -> None:
    """A scheduler that looks later counts from then; the note says so."""
    create_job(alias, "tick", interval=create_interval(alias, 60))
    [line] = read("next", "-n", "1")
    assert line["due_at"] == "2027-01-15T08:01:00.000Z"
    assert line["note"] == "counted from now: no scheduler has planned it yet"


@pytest.mark.parametrize(("epoch", "due_at"), [(0, "2027-01-15T08:00:30.000Z"), (3, "2027-01-15T08:01:00.000Z")])
def test_first_term_ever_goes_on_from_the_last_run(alias: str, epoch: int, due_at: str) -> None:
    """As the planner does, so that a move from celery beat can be looked at before."""
    SchedulerLease.objects.using(alias).create(tenant_key="default", epoch=epoch)
    last_run_at = datetime(2027, 1, 15, 7, 59, 30, tzinfo=UTC)
    create_job(alias, "tick", interval=create_interval(alias, 60), last_run_at=last_run_at)
    assert read_times("-n", "1") == [due_at]


def test_after_is_exclusive(alias: str) -> None:
    """Also before now: what the schedule would have given."""
    job = create_job(alias, "report", crontab_id=create_crontab(alias).pk)
    plan(alias, job, next_due_at_ms=NOW_MS + 21 * HOUR + HOUR // 2)
    assert read_times("--after", "2026-03-28T05:30:00.000Z", "-n", "2") == [
        "2026-03-29T05:30:00.000Z",
        "2026-03-30T05:30:00.000Z",
    ]
    assert read_times("--after", "2026-03-28T05:29:59.999Z", "-n", "1") == ["2026-03-28T05:30:00.000Z"]


def test_nights_on_which_clocks_are_turned_are_noted(alias: str) -> None:
    """A slot in the gap, in the fold; an elapsed-time job shows both readings."""
    berlin = {"timezone": "Europe/Berlin", "minute": "30"}
    create_job(alias, "wall", crontab_id=create_crontab(alias, **berlin, hour="2").pk)
    create_job(alias, "elapsed", crontab_id=create_crontab(alias, **berlin, hour="*").pk)
    assert read("next", "wall", "--after", "2027-03-27T12:00Z", "-n", "1")[0] == {
        "tenant": "default",
        "job": "wall",
        "due_at": "2027-03-28T01:00:00.000Z",
        "local": "2027-03-28T03:00:00+02:00",
        "note": "moved out of the spring gap",
    }
    assert read_notes("wall", "--after", "2026-10-24T12:00Z", "-n", "2") == ["first of two readings", ""]
    fold = read("next", "elapsed", "--after", "2026-10-25T00:00Z", "-n", "3")
    assert [(line["local"], line["note"]) for line in fold] == [
        ("2026-10-25T02:30:00+02:00", "first of two readings"),
        ("2026-10-25T02:30:00+01:00", "second of two readings"),
        ("2026-10-25T03:30:00+01:00", ""),
    ]
    assert set(read_notes("elapsed", "--after", "2027-03-27T12:00Z", "-n", "24")) == {""}


def test_pauses_and_jitter_are_noted(alias: str) -> None:
    """A pause with an end only up to it; the due time itself is not moved."""
    job = create_job(alias, "tick", interval=create_interval(alias, 3600))
    plan(alias, job, next_due_at_ms=NOW_MS + HOUR)
    JobPolicy.objects.using(alias).create(job=job, paused=True, paused_until_ms=NOW_MS + HOUR + 1, jitter_s=600)
    delays = [
        show_duration(jittered(at_ms, job_id=job.pk, jitter_s=600) - at_ms)
        for at_ms in (NOW_MS + HOUR, NOW_MS + 2 * HOUR)
    ]
    assert read_notes("-n", "2") == [
        f"paused; jitter: fires {delays[0]} later",
        f"jitter: fires {delays[1]} later",
    ]
    TenantPolicy.objects.using(alias).create(tenant_key="default", paused=True)
    assert [note.split(";")[0] for note in read_notes("-n", "2")] == ["paused", "paused"]


def test_job_that_never_comes_due_has_one_line_that_says_why(alias: str) -> None:
    """Without a time."""
    daily = create_crontab(alias)
    past = create_clocked(alias, datetime(2026, 1, 1, tzinfo=UTC))
    create_job(alias, "disabled", crontab_id=daily.pk, enabled=False)
    create_job(alias, "expired", crontab_id=daily.pk, expires=datetime(2027, 1, 1, tzinfo=UTC))
    create_job(alias, "malformed", crontab_id=create_crontab(alias, hour="25").pk)
    create_job(alias, "past", clocked=past, one_off=True)
    ran = create_job(alias, "ran", crontab_id=daily.pk, one_off=True)
    plan(alias, ran, next_due_at_ms=None, last_due_at_ms=NOW_MS)
    missed = create_job(alias, "saved after its time", clocked=past, one_off=True)
    plan(alias, missed, next_due_at_ms=None)
    unknown_here = create_job(alias, "unknown here", crontab_id=create_crontab(alias, timezone="Mars/Olympus").pk)
    plan(alias, unknown_here, next_due_at_ms=NOW_MS + HOUR)
    lines = read("next")
    assert {(line["due_at"], line["local"]) for line in lines} == {(None, None)}
    assert {line["job"]: line["note"] for line in lines} == {
        "disabled": "disabled",
        "expired": "never: its schedule has no later time",
        "malformed": "never: crontab_hour '25': '25' is no number or name in range; numbers here are 0 to 23",
        "past": "never: its schedule has no later time",
        "ran": "never: it is a one-off and has had its run",
        "saved after its time": "never: its schedule has no later time",
        "unknown here": "never: crontab_timezone 'Mars/Olympus': no such time zone on this machine",
    }


def test_one_off_comes_due_once(alias: str) -> None:
    """Its schedule would go on; the job does not."""
    job = create_job(alias, "once", crontab_id=create_crontab(alias).pk, one_off=True)
    plan(alias, job, next_due_at_ms=NOW_MS + HOUR)
    assert read_times() == ["2027-01-15T09:00:00.000Z"]
    assert read_times("--after", "2027-01-15T09:00Z") == []
    assert run("next", "--after", "2027-01-15T09:00Z") == "Nothing comes due.\n"


def test_table_is_for_people(alias: str) -> None:
    """And no jobs are an answer, too."""
    assert run("next") == "No jobs.\n"
    create_job(alias, "report", crontab_id=create_crontab(alias).pk)
    assert run("next", "-n", "1").split() == [
        *("TENANT", "JOB", "DUE", "LOCAL", "NOTE"),
        *("default", "report", "2027-01-16T05:30:00.000Z", "2027-01-16T05:30:00+00:00"),
    ]


def test_unknown_name_says_what_was_meant(alias: str) -> None:
    """All of them at once, exit code 2."""
    create_job(alias, "nightly report", crontab_id=create_crontab(alias).pk)
    with pytest.raises(CommandError) as failure:
        run("next", "nightly-report", "nightly report", "zzz")
    assert failure.value.returncode == 2
    assert str(failure.value).splitlines() == [
        "There is no job 'nightly-report' in tenant 'default'. Did you mean 'nightly report'?",
        "There is no job 'zzz' in tenant 'default'.",
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--after", "soon"), "argument --after: 'soon' is no date and time such as 2026-03-29T01:00:00Z"),
        (("-n", "0"), "argument -n/--count: '0' is no number, 1 or more"),
    ],
)
def test_arguments_that_cannot_be_read_are_named(alias: str, arguments: tuple[str, str], complaint: str) -> None:
    """With what would be right."""
    with pytest.raises(CommandError, match=complaint):
        run("next", *arguments)
