"""The admin page on which people pause a tenant."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from freezegun import freeze_time
from pytest_django import Settings

from django_leased_cron.models import TenantPolicy

pytestmark = pytest.mark.django_db

LIST = "admin:leased_cron_tenantpolicy_changelist"
ADD = "admin:leased_cron_tenantpolicy_add"
CHANGE = "admin:leased_cron_tenantpolicy_change"


@pytest.fixture(autouse=True)
def _berlin(settings: Settings) -> None:
    settings.TIME_ZONE = "Europe/Berlin"


def submit(client: Client, url: str, **values: str) -> str:
    """Submit the form; return what it complains of, nothing if it was saved."""
    response = client.post(url, {"tenant_key": "default", "paused_until_0": "", "paused_until_1": ""} | values)
    if response.status_code == 302:
        return ""
    errors: Any = response.context["adminform"].form.errors
    return str(errors.as_text())


@freeze_time("2026-10-24 12:00:00")
def test_pause_is_signed_and_its_end_is_an_instant(admin_client: Client) -> None:
    """The local time that a person types, by whom they are."""
    until = {"paused_until_0": "2026-10-26", "paused_until_1": "06:00:00"}
    assert submit(admin_client, reverse(ADD), paused="on", paused_reason="maintenance", **until) == ""
    policy = TenantPolicy.objects.get()
    assert (policy.tenant_key, policy.paused, policy.paused_by) == ("default", True, "admin")
    assert (policy.paused_reason, policy.paused_until_ms) == ("maintenance", 1_792_990_800_000)  # 05:00 UTC
    page = admin_client.get(reverse(CHANGE, args=[policy.pk])).content.decode()
    assert 'value="2026-10-26"' in page
    assert 'value="06:00:00"' in page
    assert "2026-10-26 06:00:00 CET" in admin_client.get(reverse(LIST)).content.decode()


def test_who_edits_a_pause_has_not_paused(admin_client: Client) -> None:
    """The name stays that of the one who did."""
    policy = TenantPolicy.objects.create(tenant_key="default", paused=True, paused_by="grace")
    assert submit(admin_client, reverse(CHANGE, args=[policy.pk]), paused="on", paused_reason="still") == ""
    policy.refresh_from_db()
    assert (policy.paused_by, policy.paused_reason) == ("grace", "still")


def test_resuming_forgets_the_pause(admin_client: Client) -> None:
    """Nothing is left that a later pause could be mistaken for."""
    policy = TenantPolicy.objects.create(
        tenant_key="default", paused=True, paused_by="grace", paused_reason="x", paused_until_ms=1
    )
    until = {"paused_until_0": "1970-01-01", "paused_until_1": "01:00:00"}
    assert submit(admin_client, reverse(CHANGE, args=[policy.pk]), paused_reason="x", **until) == ""
    policy.refresh_from_db()
    assert (policy.paused, policy.paused_by, policy.paused_reason, policy.paused_until_ms) == (False, "", "", None)


@freeze_time("2026-10-24 12:00:00")
def test_pause_cannot_end_in_the_past(admin_client: Client) -> None:
    """It would be none."""
    until = {"paused_until_0": "2026-10-24", "paused_until_1": "14:00:00"}  # 12:00 UTC
    assert "in the past" in submit(admin_client, reverse(ADD), paused="on", **until)


def test_tenant_that_is_not_listed_is_refused(admin_client: Client) -> None:
    """A policy for nobody would pause nothing."""
    assert "acme" in submit(admin_client, reverse(ADD), tenant_key="acme", paused="on")


def test_tenant_of_another_database_cannot_be_chosen(admin_client: Client, settings: Settings) -> None:
    """Its policy counts beside its jobs, not here."""
    settings.LEASED_CRON = {"TENANTS": {"OPTIONS": {"alias": "sqlite"}}}
    assert "default" in submit(admin_client, reverse(ADD), paused="on")
    assert not TenantPolicy.objects.exists()
