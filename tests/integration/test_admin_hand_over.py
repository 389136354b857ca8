"""Asking holders to hand over, on the admin's page of leases."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.urls import reverse

from django_leased_cron.exceptions import DatabaseUnavailableError
from django_leased_cron.hand_over import open_leases
from django_leased_cron.lease_store.store import SqlLeaseStore
from django_leased_cron.models import SchedulerLease

pytestmark = pytest.mark.django_db(transaction=True)  # the request is made on a connection of its own

A_MINUTE_MS = 60_000


def hold(tenant_key: str = "default", *, expires_in_ms: int = A_MINUTE_MS) -> SchedulerLease:
    with open_leases("default") as leases:
        now_ms = leases.read([tenant_key]).now_ms
    rows = SchedulerLease.objects.filter(tenant_key=tenant_key)
    rows.update(holder_id="web-1", epoch=7, acquired_at_ms=now_ms, expires_at_ms=now_ms + expires_in_ms)
    return rows.get()


def ask(client: Client, *leases: SchedulerLease) -> list[str]:
    """Choose the action for these leases; return what the page says then."""
    response = client.post(
        reverse("admin:leased_cron_schedulerlease_changelist"),
        {"action": "hand_over", "_selected_action": [lease.pk for lease in leases], "index": "0"},
        follow=True,
    )
    assert response.status_code == 200
    return [f"{message.level_tag}: {message}" for message in response.context["messages"]]


def sign_in(client: Client, *codenames: str) -> None:
    user = User.objects.create_user("grace", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client.force_login(user)


def test_holder_is_asked_and_the_history_notes_who_asked(client: Client) -> None:
    """Only the request is written; seeing and asking are all the permissions that it takes."""
    sign_in(client, "view_schedulerlease", "hand_over_schedulerlease")
    lease = hold()
    assert ask(client, lease) == ["success: Asked web-1 to hand over default."]
    after = SchedulerLease.objects.get()
    assert after.hand_over_requested_at_ms is not None
    assert (after.holder_id, after.epoch, after.expires_at_ms) == ("web-1", 7, lease.expires_at_ms)
    [entry] = LogEntry.objects.all()
    assert (entry.user.get_username(), entry.object_repr) == ("grace", "default")
    assert entry.get_change_message() == "Asked web-1 to hand over."


def test_seeing_leases_is_not_enough(client: Client) -> None:
    """The action is neither offered nor done."""
    sign_in(client, "view_schedulerlease")
    lease = hold()
    page = client.get(reverse("admin:leased_cron_schedulerlease_changelist")).content.decode()
    assert 'hand_over"' not in page
    ask(client, lease)
    assert SchedulerLease.objects.get().hand_over_requested_at_ms is None
    assert not LogEntry.objects.exists()


def test_link_asks_nobody(admin_client: Client) -> None:
    """A page that is only looked at changes nothing."""
    lease = hold()
    page = reverse("admin:leased_cron_schedulerlease_changelist")
    admin_client.get(f"{page}?action=hand_over&_selected_action={lease.pk}&index=0")
    assert SchedulerLease.objects.get().hand_over_requested_at_ms is None


def test_lease_that_nobody_holds(admin_client: Client) -> None:
    """Free or expired; the others are asked all the same, and nothing is noted of those."""
    leases = [hold("acme", expires_in_ms=0), hold("umbra")]
    assert ask(admin_client, *leases) == [
        "warning: Nobody holds the lease of acme.",
        "success: Asked web-1 to hand over umbra.",
    ]
    assert [entry.object_repr for entry in LogEntry.objects.all()] == ["umbra"]


def test_database_that_does_not_answer_is_told(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message and not an error page."""
    lease = hold()
    away = DatabaseUnavailableError("default", "lock timeout")
    monkeypatch.setattr(SqlLeaseStore, "request_hand_over", Mock(side_effect=away))
    [complaint] = ask(admin_client, lease)
    assert complaint.startswith("error: ")
    assert "lock timeout" in complaint
    assert not LogEntry.objects.exists()


def test_page_in_one_transaction_does_not_wait_for_itself(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ATOMIC_REQUESTS, SQLite would hold the lock of its writers from the beginning of the page to its end."""
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", 1)
    assert ask(admin_client, hold()) == ["success: Asked web-1 to hand over default."]
