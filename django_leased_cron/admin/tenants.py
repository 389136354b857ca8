"""What people decided about a tenant."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db import DEFAULT_DB_ALIAS, connection
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_leased_cron.admin.generics import AnyModelAdmin
from django_leased_cron.admin.machine_state import instant_column
from django_leased_cron.admin.pauses import PAUSE_FIELDS, PauseForm
from django_leased_cron.models import TenantPolicy
from django_leased_cron.schema_settings import find_current_schema
from django_leased_cron.tenants import get_tenant_source


def _list_keys() -> list[tuple[str, str]]:
    # A policy counts in the database and the schema with the tenant's jobs, and this page writes to its own.
    tenants = get_tenant_source().list_tenants()
    here = DEFAULT_DB_ALIAS, find_current_schema(connection)
    return [(tenant.key, tenant.key) for tenant in tenants if (tenant.alias, tenant.schema) == here]


class TenantPolicyForm(PauseForm):
    tenant_key = forms.ChoiceField(label=_("Tenant"), choices=_list_keys)

    class Meta:
        model = TenantPolicy
        fields = ("tenant_key",)


@admin.register(TenantPolicy)
class TenantPolicyAdmin(AnyModelAdmin):
    form = TenantPolicyForm
    fields = ("tenant_key", *PAUSE_FIELDS)
    list_display = ("tenant_key", "paused", "paused_by", "paused_reason", "until")
    ordering = ("tenant_key",)

    until = instant_column("paused_until_ms", _("until"))

    def get_readonly_fields(self, request: HttpRequest, obj: TenantPolicy | None = None) -> tuple[str, ...]:
        return ("tenant_key", "paused_by") if obj else ("paused_by",)

    def save_model(self, request: HttpRequest, obj: TenantPolicy, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        form.sign(request.user.get_username())
        super().save_model(request, obj, form, change)
