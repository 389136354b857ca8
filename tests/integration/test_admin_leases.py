"""The admin pages of leases and processes: to look at, never to write."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from django_leased_cron.models import SchedulerLease, SchedulerProcess
from tests.integration.fixed_clock import NOW_MS, SECOND, TTL_MS, fix_clock

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    fix_clock(monkeypatch)


def hold(tenant_key: str = "default", *, expires_in_ms: int = 20 * SECOND, holder_id: str = "web-1") -> SchedulerLease:
    return SchedulerLease.objects.create(
        tenant_key=tenant_key,
        holder_id=holder_id,
        epoch=7,
        acquired_at_ms=NOW_MS - 3600 * SECOND,
        expires_at_ms=NOW_MS + expires_in_ms,
        owed_since_ms=NOW_MS + SECOND,
    )


def report(holder_id: str = "web-1", *, seen_ago_ms: int = SECOND) -> None:
    SchedulerProcess.objects.create(
        holder_id=holder_id,
        host="web",
        pid=4711,
        version="1.0",
        started_at_ms=NOW_MS - 7200 * SECOND,
        last_seen_at_ms=NOW_MS - seen_ago_ms,
        tenants=[],
    )


def read_page(client: Client, page: str) -> str:
    response = client.get(reverse(f"admin:leased_cron_{page}_changelist"))
    assert response.status_code == 200
    return response.content.decode()


def test_lease_shows_who_holds_it_since_when_and_what_is_owed(admin_client: Client) -> None:
    """Instants as local date-times."""
    hold()
    report()
    page = read_page(admin_client, "schedulerlease")
    for text in ("web-1", "2027-01-15 07:00:00 UTC", "in 20 s", "2027-01-15 08:00:01 UTC", 'alt="True"'):
        assert text in page


@pytest.mark.parametrize(("expires_in_ms", "seen_ago_ms"), [(0, SECOND), (SECOND, TTL_MS + 1)])
def test_lease_of_a_silent_holder_is_not_live(admin_client: Client, expires_in_ms: int, seen_ago_ms: int) -> None:
    """Run out by the database's clock, or its process was not seen for a TTL."""
    hold(expires_in_ms=expires_in_ms)
    report(seen_ago_ms=seen_ago_ms)
    assert 'alt="False"' in read_page(admin_client, "schedulerlease")


def test_free_lease_is_held_by_nobody(admin_client: Client) -> None:
    """It shows no expiry in 1970."""
    SchedulerLease.objects.create(tenant_key="default")
    page = read_page(admin_client, "schedulerlease")
    assert "nobody" in page
    assert "1970" not in page


def test_process_shows_whether_it_was_seen(admin_client: Client) -> None:
    """Its row may outlive it."""
    report("seen", seen_ago_ms=TTL_MS)
    page = read_page(admin_client, "schedulerprocess")
    assert 'alt="True"' in page
    assert '<td class="field-takes">all</td>' in page
    SchedulerProcess.objects.update(last_seen_at_ms=NOW_MS - TTL_MS - 1)
    assert 'alt="True"' not in read_page(admin_client, "schedulerprocess")


@pytest.mark.parametrize("act", ["add", "change", "delete", "delete_selected"])
def test_no_form_writes_a_lease(admin_client: Client, act: str) -> None:
    """Not a superuser's either: one loaded before a takeover would write the old epoch back (I2)."""
    lease = hold()
    before = SchedulerLease.objects.values().get()
    if act == "delete_selected":
        url = reverse("admin:leased_cron_schedulerlease_changelist")
        response = admin_client.post(url, {"action": act, "_selected_action": lease.pk, "post": "yes"})
    else:
        url = reverse(f"admin:leased_cron_schedulerlease_{act}", args=[] if act == "add" else [lease.pk])
        response = admin_client.post(url, {"tenant_key": "default", "holder_id": "me", "epoch": 1, "post": "yes"})
        assert response.status_code == 403
    assert list(SchedulerLease.objects.values()) == [before]
