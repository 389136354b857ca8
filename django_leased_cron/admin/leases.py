"""Which process schedules which tenant."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db import connections
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_leased_cron.admin.machine_state import MachineStateAdmin, instant_column
from django_leased_cron.conf import get_settings
from django_leased_cron.database.now import read_now_ms
from django_leased_cron.display import show_distance
from django_leased_cron.models import SchedulerLease, SchedulerProcess
from django_leased_cron.schema_settings import find_current_schema, get_public_schema
from django_leased_cron.status import is_live, is_seen


def _find_only_tenant(alias: str) -> str | None:
    """Return the tenant whose schema the page is in: it shows nothing of the others. ``None``: it shows all."""
    schema = find_current_schema(connections[alias])
    return schema if schema and schema != get_public_schema() else None


@admin.register(SchedulerLease)
class SchedulerLeaseAdmin(MachineStateAdmin):
    list_display = ("tenant_key", "holder", "live", "epoch", "acquired_at", "expires", "progressed_at", "owed_since")
    list_display_links = None
    fields = list_display
    ordering = ("tenant_key",)
    search_fields = ("tenant_key", "holder_id")
    show_full_result_count = False

    acquired_at = instant_column("acquired_at_ms", _("acquired"))
    progressed_at = instant_column("progressed_at_ms", _("progressed"))
    owed_since = instant_column("owed_since_ms", _("owed since"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        leases: QuerySet[Any] = super().get_queryset(request)
        tenant = _find_only_tenant(leases.db)
        if tenant is not None:
            leases = leases.filter(tenant_key=tenant)
        processes = SchedulerProcess.objects.filter(holder_id=OuterRef("holder_id"))
        seen_at_ms = Subquery(processes.values("last_seen_at_ms")[:1])
        leases = leases.annotate(now_ms=read_now_ms(leases.db), holder_seen_at_ms=seen_at_ms)
        return leases

    @admin.display(description=_("holder"), ordering="holder_id")
    def holder(self, lease: Any) -> str:
        return lease.holder_id or str(_("nobody"))

    @admin.display(description=_("live"), boolean=True)
    def live(self, lease: Any) -> bool:
        return is_live(
            expires_at_ms=lease.expires_at_ms,
            last_seen_at_ms=lease.holder_seen_at_ms,
            now_ms=lease.now_ms,
            lease_ttl_ms=get_settings().timing.lease_ttl_ms,
        )

    @admin.display(description=_("expires"), ordering="expires_at_ms")
    def expires(self, lease: Any) -> str:
        if not lease.holder_id:
            return str(self.get_empty_value_display())
        return show_distance(lease.expires_at_ms, now_ms=lease.now_ms)


@admin.register(SchedulerProcess)
class SchedulerProcessAdmin(MachineStateAdmin):
    list_display = ("holder_id", "host", "pid", "version", "started_at", "last_seen_at", "live", "draining", "takes")
    list_display_links = None
    fields = list_display
    ordering = ("holder_id",)

    started_at = instant_column("started_at_ms", _("started"))
    last_seen_at = instant_column("last_seen_at_ms", _("last seen"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        processes: QuerySet[Any] = super().get_queryset(request)
        tenant = _find_only_tenant(processes.db)
        if tenant is not None:
            processes = processes.filter(
                holder_id__in=SchedulerLease.objects.filter(tenant_key=tenant).values("holder_id")
            )
        processes = processes.annotate(now_ms=read_now_ms(processes.db))
        return processes

    @admin.display(description=_("live"), boolean=True)
    def live(self, process: Any) -> bool:
        lease_ttl_ms = get_settings().timing.lease_ttl_ms
        return is_seen(process.last_seen_at_ms, now_ms=process.now_ms, lease_ttl_ms=lease_ttl_ms)

    @admin.display(description=_("tenants"))
    def takes(self, process: Any) -> str:
        return ", ".join(process.tenants) or str(_("all"))
