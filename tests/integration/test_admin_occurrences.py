"""The admin page of occurrences: what became of them, found quickly, never written."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django_celery_beat.models import IntervalSchedule, PeriodicTask
from freezegun import freeze_time
from pytest_django import Settings

from django_leased_cron.admin.occurrences import BoundedPaginator
from django_leased_cron.core.jitter import jittered
from django_leased_cron.models import JobPolicy, Occurrence

pytestmark = pytest.mark.django_db

LIST = "admin:leased_cron_occurrence_changelist"
HOUR_MS = 3_600_000
MIDNIGHT_MS = 1_792_879_200_000  # 2026-10-25 00:00 in Berlin, a day of 25 hours


@pytest.fixture(autouse=True)
def _berlin(settings: Settings) -> None:
    settings.TIME_ZONE = "Europe/Berlin"


def create(job_name: str = "job", *, job_id: int = 99, due_at_ms: int = MIDNIGHT_MS, **columns: Any) -> Occurrence:
    values = {"state": "sent"} | columns
    return Occurrence.objects.create(job_id=job_id, job_name=job_name, due_at_ms=due_at_ms, **values)


def find(client: Client, **query: str) -> set[str]:
    """Return the names of the jobs on the page."""
    response = client.get(reverse(LIST), query)
    assert response.status_code == 200
    return {occurrence.job_name for occurrence in response.context["cl"].result_list}


def test_occurrence_is_shown_with_its_times(admin_client: Client) -> None:
    """Also that of a job that no longer exists."""
    create("gone", claimed_at_ms=MIDNIGHT_MS + 3, sent_at_ms=MIDNIGHT_MS + 12, attempt=2, epoch=7)
    page = admin_client.get(reverse(LIST)).content.decode()
    for text in ("gone", "2026-10-25 00:00:00 CEST", "2026-10-25 00:00:00.003 CEST", ">12 ms<", ">2<", ">7<"):
        assert text in page


def test_jitter_is_not_lateness(admin_client: Client) -> None:
    """It counts from the moment at which the occurrence should have fired."""
    schedule = IntervalSchedule.objects.create(every=1, period="days")
    job = PeriodicTask.objects.create(name="spread", task="t", interval=schedule)
    JobPolicy.objects.create(job=job, jitter_s=600)
    sent_at_ms = jittered(MIDNIGHT_MS, job_id=job.pk, jitter_s=600) + 8
    create("spread", job_id=job.pk, sent_at_ms=sent_at_ms)
    assert '<td class="field-lateness">8 ms</td>' in admin_client.get(reverse(LIST)).content.decode()


def test_stretch_of_skipped_slots_shows_their_number(admin_client: Client) -> None:
    """And its page the first of them."""
    stretch = create(state="skipped", reason="catch_up", slots=25, first_due_at_ms=MIDNIGHT_MS - 24 * HOUR_MS)
    assert "catch_up (25 slots)" in admin_client.get(reverse(LIST)).content.decode()
    page = admin_client.get(reverse("admin:leased_cron_occurrence_change", args=[stretch.pk])).content.decode()
    assert "2026-10-24 00:00:00 CEST" in page


def test_long_reason_is_whole_on_its_own_page(admin_client: Client) -> None:
    """The list shows its beginning."""
    failed = create(state="failed", reason="x" * 200 + "the end")
    assert "the end" not in admin_client.get(reverse(LIST)).content.decode()
    page = admin_client.get(reverse("admin:leased_cron_occurrence_change", args=[failed.pk])).content.decode()
    assert "the end" in page


def test_found_by_state_job_name_and_task_id(admin_client: Client) -> None:
    """By a part of the name, by the whole id, and by the link from a job's page."""
    create("invoices", job_id=1, state="failed")
    create("reports", job_id=2, task_id="0a2f0b6e-8a51-5a52-b7dc-3d1f7a7a1f43")
    assert find(admin_client) == {"invoices", "reports"}
    assert find(admin_client, state__exact="failed") == {"invoices"}
    assert find(admin_client, q="voic") == {"invoices"}
    assert find(admin_client, q="0a2f0b6e-8a51-5a52-b7dc-3d1f7a7a1f43") == {"reports"}
    assert find(admin_client, job="2") == {"reports"}


@freeze_time("2026-10-26 08:00:00")
def test_found_by_local_day(admin_client: Client) -> None:
    """All 25 hours of it."""
    create("day before", due_at_ms=MIDNIGHT_MS - 1)
    create("first", due_at_ms=MIDNIGHT_MS)
    create("last", due_at_ms=MIDNIGHT_MS + 25 * HOUR_MS - 1)
    create("day after", due_at_ms=MIDNIGHT_MS + 25 * HOUR_MS)
    assert find(admin_client, day="2026-10-25") == {"first", "last"}
    response = admin_client.get(reverse(LIST))
    [_, days] = response.context["cl"].filter_specs
    assert [str(name) for _, name in days.lookup_choices[:3]] == ["Today", "Yesterday", "2026-10-24"]


@pytest.mark.parametrize("day", ["yesterday", "9999-12-31"])
def test_wrong_day_is_no_error_page(admin_client: Client, day: str) -> None:
    """The admin shows the list without filters and says so."""
    response = admin_client.get(reverse(LIST), {"day": day})
    assert (response.status_code, response["Location"]) == (302, f"{reverse(LIST)}?e=1")


def test_counts_no_further_than_people_page(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """No statement counts the whole table."""
    monkeypatch.setattr(BoundedPaginator, "most", 3)
    for number in range(5):
        create(due_at_ms=number)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        response = admin_client.get(reverse(LIST))
    assert response.context["cl"].result_count == 3
    counting = [query["sql"] for query in queries if "COUNT(" in query["sql"]]
    assert counting
    assert all("LIMIT 3" in sql for sql in counting)


@pytest.mark.parametrize("act", ["add", "change", "delete"])
def test_no_form_writes_an_occurrence(admin_client: Client, act: str) -> None:
    """The outbox is the scheduler's."""
    occurrence = create()
    url = reverse(f"admin:leased_cron_occurrence_{act}", args=[] if act == "add" else [occurrence.pk])
    assert admin_client.post(url, {"state": "claimed", "post": "yes"}).status_code == 403
    assert [row.state for row in Occurrence.objects.all()] == ["sent"]
