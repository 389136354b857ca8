"""Jobs of the code on django-celery-beat's pages."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from django_leased_cron.models import CodeJob

pytestmark = pytest.mark.django_db


def test_jobs_are_found_by_whether_the_code_has_them(admin_client: Client) -> None:
    """Those of people are neither in it nor gone from it."""
    interval = IntervalSchedule.objects.create(every=1, period="days")
    for name in ("in the code", "orphan", "of people"):
        PeriodicTask.objects.create(name=name, task="shop.close", interval=interval)
    CodeJob.objects.create(job=PeriodicTask.objects.get(name="in the code"), entry="a")
    CodeJob.objects.create(job=PeriodicTask.objects.get(name="orphan"), entry="b", in_code=False)

    def find(**query: str) -> set[str]:
        page = admin_client.get(reverse("admin:django_celery_beat_periodictask_changelist"), query)
        return {job.name for job in page.context["cl"].result_list}

    assert find(code="in_code") == {"in the code"}
    assert find(code="orphaned") == {"orphan"}
    assert find() == {"in the code", "orphan", "of people"}
