"""django-celery-beat's pages of jobs, with what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django_celery_beat.models import ClockedSchedule, CrontabSchedule, IntervalSchedule, PeriodicTask

from django_leased_cron.core.jitter import jittered
from django_leased_cron.models import JobPolicy, JobState, Occurrence
from tests.integration.fixed_clock import NOW_MS, SECOND, fix_clock
from tests.job_page import CHANGE, submit

pytestmark = pytest.mark.django_db

LIST = "admin:django_celery_beat_periodictask_changelist"
POLICY = "leased_cron_policy"


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    fix_clock(monkeypatch)


def create_job(name: str, **columns: Any) -> Any:
    """Write a job past every validation; every second, if nothing else is said."""
    if not columns.keys() & {"interval", "interval_id", "crontab", "crontab_id", "clocked"}:
        columns["interval"], _ = IntervalSchedule.objects.get_or_create(every=1, period="seconds")
    PeriodicTask.objects.bulk_create([PeriodicTask(name=name, task="shop.close", **columns)])
    return PeriodicTask.objects.get(name=name)


def create_crontab(**columns: str) -> Any:
    crontab = CrontabSchedule.objects.create(minute="30", hour="5")
    with connection.cursor() as cursor:
        for column, value in columns.items():
            cursor.execute(
                f"UPDATE django_celery_beat_crontabschedule SET {column} = %s WHERE id = %s", [value, crontab.pk]
            )
    return crontab


def read_list(client: Client, **query: str) -> str:
    response = client.get(reverse(LIST), query)
    assert response.status_code == 200
    return response.content.decode()


def read_job(client: Client, job: Any) -> str:
    response = client.get(reverse(CHANGE, args=[job.pk]))
    assert response.status_code == 200
    return response.content.decode()


# What is shown.


def test_next_due_is_shown_in_the_zone_of_the_job(admin_client: Client) -> None:
    """And how far away it is; of a job without a zone in the admin's own."""
    daily = create_job("daily", crontab=create_crontab(timezone="America/New_York"))
    often = create_job("often")
    for job in (daily, often):
        JobState.objects.create(job=job, next_due_at_ms=NOW_MS + 240 * SECOND)
    page = read_list(admin_client)
    assert "2027-01-15 03:04:00 EST (in 4 min)" in page
    assert "2027-01-15 08:04:00 UTC (in 4 min)" in page


def test_last_outcome_is_the_latest_occurrence(admin_client: Client) -> None:
    """With its lateness, jitter taken off, and a link to the history."""
    job = create_job("job")
    JobPolicy.objects.create(job=job, jitter_s=600)
    sent_at_ms = jittered(NOW_MS, job_id=job.pk, jitter_s=600) + 12
    Occurrence.objects.create(job=job, due_at_ms=NOW_MS - SECOND, state="failed", reason="earlier")
    Occurrence.objects.create(job=job, due_at_ms=NOW_MS, state="succeeded", sent_at_ms=sent_at_ms)
    for page in (read_list(admin_client), read_job(admin_client, job)):
        assert f'<a href="/admin/leased_cron/occurrence/?job={job.pk}">succeeded, 12 ms late</a>' in page
        assert "earlier" not in page


def test_failed_outcome_stands_out(admin_client: Client) -> None:
    """With its reason."""
    job = create_job("job")
    Occurrence.objects.create(job=job, due_at_ms=NOW_MS, state="failed", reason="boom <b>")
    assert 'class="errorlist"' in read_list(admin_client)
    assert "failed: boom &lt;b&gt;" in read_list(admin_client)


def test_paused_job_says_so(admin_client: Client) -> None:
    """Until the pause is over by the database's clock."""
    policy = JobPolicy.objects.create(job=create_job("job"), paused=True, paused_until_ms=NOW_MS + 1)
    assert '<td class="field-next_due">paused</td>' in read_list(admin_client)
    policy.paused_until_ms = NOW_MS
    policy.save()
    assert '<td class="field-next_due">-</td>' in read_list(admin_client)


@pytest.mark.parametrize(
    "columns",
    [
        {"crontab": {"timezone": "Mars/Olympus"}},
        {"crontab": {"timezone": ""}},
        {"crontab": {"minute": ""}},
        {"crontab": {"day_of_month": "30", "month_of_year": "2"}},
        {"interval": None},
        {"args": "{nope"},
    ],
    ids=str,
)
def test_error_is_shown_where_a_person_sees_it(admin_client: Client, columns: dict[str, Any]) -> None:
    """In the list and on the job's own page, which no malformed row takes away from this or another job (I8)."""
    if "crontab" in columns:
        columns = {"crontab_id": create_crontab(**columns["crontab"]).pk}
    bad, good = create_job("bad", **columns), create_job("good")
    JobState.objects.create(job=bad, error="crontab_minute '': choose <one>")
    JobPolicy.objects.create(job=bad)
    note = '<span class="errornote">crontab_minute &#x27;&#x27;: choose &lt;one&gt;</span>'
    assert note in read_list(admin_client)
    assert note in read_job(admin_client, bad)
    assert "errornote" not in read_job(admin_client, good)


def test_number_of_queries_does_not_grow_with_the_number_of_jobs(admin_client: Client) -> None:
    """One job or fifty, each with a plan, a policy, a history and a schedule of its own."""

    def create_jobs(first: int, last: int) -> None:
        for number in range(first, last):
            schedule: dict[str, Any] = {"interval": IntervalSchedule.objects.create(every=number, period="hours")}
            if number % 2:
                schedule = {"crontab": CrontabSchedule.objects.create(minute=str(number))}
            job = create_job(f"job {number}", **schedule)
            JobState.objects.create(job=job, next_due_at_ms=NOW_MS)
            JobPolicy.objects.create(job=job)
            for due_at_ms in (1, 2):
                Occurrence.objects.create(job=job, due_at_ms=due_at_ms, state="sent")

    def count_queries() -> int:
        with CaptureQueriesContext(connection) as queries:
            read_list(admin_client)
        return len(queries)

    create_jobs(1, 2)
    read_list(admin_client)  # Django asks SQLite once what it can do
    with_one = count_queries()
    create_jobs(2, 51)
    assert count_queries() == with_one


def test_jobs_are_found_by_their_plan(admin_client: Client) -> None:
    """With an error, finished, not planned yet; what is planned or switched off is none of these."""
    clocked = ClockedSchedule.objects.create(clocked_time="2026-01-01T00:00:00Z")
    JobState.objects.create(job=create_job("broken"), error="bad", inputs="x")
    JobState.objects.create(job=create_job("planned"), next_due_at_ms=NOW_MS, inputs="x")
    JobState.objects.create(job=create_job("expired"), inputs="x")
    once = {"clocked": clocked, "one_off": True, "enabled": False}
    JobState.objects.create(job=create_job("had its run", **once), last_due_at_ms=NOW_MS)
    JobState.objects.create(job=create_job("switched off", enabled=False))
    JobState.objects.create(job=create_job("switched on again"))
    create_job("new")
    create_job("new and off", enabled=False)

    def find(plan: str) -> set[str]:
        return {job.name for job in admin_client.get(reverse(LIST), {"plan": plan}).context["cl"].result_list}

    assert find("error") == {"broken"}
    assert find("finished") == {"expired", "had its run"}
    assert find("unplanned") == {"new", "switched on again"}


# What can be edited.


def test_policy_is_edited_on_the_page_of_its_job(admin_client: Client) -> None:
    """A pause is signed; a page saved without touching the policy makes none."""
    job = create_job("job")
    assert submit(admin_client, job).status_code == 302
    assert not JobPolicy.objects.exists()
    edits = {f"{POLICY}-0-catch_up": "all", f"{POLICY}-0-paused": "on", f"{POLICY}-0-paused_reason": "why"}
    assert submit(admin_client, job, **edits).status_code == 302
    policy = JobPolicy.objects.get()
    assert (policy.catch_up, policy.paused, policy.paused_by, policy.paused_reason) == ("all", True, "admin", "why")
    assert submit(admin_client, job, **{f"{POLICY}-0-paused": False}).status_code == 302
    policy.refresh_from_db()
    assert (policy.catch_up, policy.paused, policy.paused_by, policy.paused_reason) == ("all", False, "", "")


def test_negative_window_is_refused(admin_client: Client) -> None:
    """It would skip everything."""
    response = submit(admin_client, create_job("job"), **{f"{POLICY}-0-catch_up_window_s": "-1"})
    assert response.status_code == 200
    assert "0 or more" in response.content.decode()


def test_malformed_job_can_be_repaired_on_its_page(admin_client: Client) -> None:
    """The page of a job whose zone does not exist saves another schedule, and leaves the crontab's row alone."""
    mars = create_crontab(timezone="Mars/Olympus")
    job, good = create_job("job", crontab_id=mars.pk), create_crontab()
    assert submit(admin_client, job, description="kept as it is").status_code == 302
    assert submit(admin_client, job, crontab=str(good.pk)).status_code == 302
    assert PeriodicTask.objects.values_list("crontab_id", flat=True).get() == good.pk
    with connection.cursor() as cursor:
        cursor.execute("SELECT timezone FROM django_celery_beat_crontabschedule WHERE id = %s", [mars.pk])
        assert cursor.fetchone() == ("Mars/Olympus",)


def test_add_page_has_no_plan_to_show(admin_client: Client) -> None:
    """And saves a job with its policy."""
    url = reverse("admin:django_celery_beat_periodictask_add")
    assert "field-next_due" not in admin_client.get(url).content.decode()
    interval = IntervalSchedule.objects.create(every=1, period="days")
    policy = {"TOTAL_FORMS": "1", "INITIAL_FORMS": "0", "0-overlap": "skip", "0-longest_run_s": "60", "0-jitter_s": "0"}
    data = {"name": "new", "task": "shop.close", "args": "[]", "kwargs": "{}", "headers": "{}", "interval": interval.pk}
    response = admin_client.post(url, data | {f"{POLICY}-{name}": value for name, value in policy.items()})
    assert response.status_code == 302
    assert JobPolicy.objects.get(job__name="new").overlap == "skip"


def test_actions_of_django_celery_beat_go_on_working(admin_client: Client) -> None:
    """On a page whose query is ours."""
    job = create_job("job")
    for action, enabled in (("disable_tasks", False), ("enable_tasks", True), ("toggle_tasks", False)):
        assert admin_client.post(reverse(LIST), {"action": action, "_selected_action": job.pk}).status_code == 302
        job.refresh_from_db()
        assert job.enabled is enabled


def test_deleting_a_job_takes_its_policy_and_leaves_its_history(admin_client: Client) -> None:
    """The holder sweeps the plan; a malformed row can be deleted like any other."""
    job = create_job("job", crontab_id=create_crontab(timezone="Mars/Olympus").pk)
    JobPolicy.objects.create(job=job)
    JobState.objects.create(job=job)
    Occurrence.objects.create(job=job, due_at_ms=1, state="sent")
    selected = {"action": "delete_selected", "_selected_action": job.pk}
    assert admin_client.post(reverse(LIST), selected).status_code == 200  # asks first
    assert admin_client.post(reverse(LIST), selected | {"post": "yes"}).status_code == 302
    assert not PeriodicTask.objects.exists()
    assert not JobPolicy.objects.exists()
    assert (JobState.objects.count(), Occurrence.objects.count()) == (1, 1)
