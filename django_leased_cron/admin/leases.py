"""Which process schedules which tenant, and asking it to hand over."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth import get_permission_codename
from django.db import connections, transaction
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from django_leased_cron.admin.machine_state import MachineStateAdmin, instant_column
from django_leased_cron.conf import get_settings
from django_leased_cron.database.now import read_now_ms
from django_leased_cron.display import show_distance
from django_leased_cron.exceptions import StoreError
from django_leased_cron.hand_over import open_leases, request_hand_overs
from django_leased_cron.models import SchedulerLease, SchedulerProcess
from django_leased_cron.schema_settings import find_current_schema, get_public_schema
from django_leased_cron.status import is_live, is_seen


def _find_only_tenant(alias: str) -> str | None:
    """Return the tenant whose schema the page is in: it shows nothing of the others. ``None``: it shows all."""
    schema = find_current_schema(connections[alias])
    return schema if schema and schema != get_public_schema() else None


@admin.register(SchedulerLease)
class SchedulerLeaseAdmin(MachineStateAdmin):
    list_display = (
        "tenant_key",
        "holder",
        "live",
        "epoch",
        "acquired_at",
        "expires",
        "progressed_at",
        "owed_since",
        "hand_over_requested_at",
    )
    list_display_links = None
    fields = list_display
    actions = ("hand_over",)
    ordering = ("tenant_key",)
    search_fields = ("tenant_key", "holder_id")
    show_full_result_count = False

    acquired_at = instant_column("acquired_at_ms", _("acquired"))
    progressed_at = instant_column("progressed_at_ms", _("progressed"))
    owed_since = instant_column("owed_since_ms", _("owed since"))
    hand_over_requested_at = instant_column("hand_over_requested_at_ms", _("hand-over requested"))

    # The request is sent on a connection of its own. A transaction around the whole page would hold, on SQLite, the
    # lock that this one waits for.
    @transaction.non_atomic_requests
    def changelist_view(self, request: HttpRequest, extra_context: dict[str, str] | None = None) -> HttpResponse:
        return super().changelist_view(request, extra_context)

    def has_hand_over_permission(self, request: HttpRequest) -> bool:
        codename = get_permission_codename("hand_over", self.opts)
        return request.user.has_perm(f"{self.opts.app_label}.{codename}")

    @admin.action(description=_("Ask the holders to hand over"), permissions=["hand_over"])
    def hand_over(self, request: HttpRequest, leases: QuerySet[Any]) -> None:
        by_key = {lease.tenant_key: lease for lease in leases}
        try:
            with open_leases(leases.db) as store:
                asked = request_hand_overs(store, by_key)
        except StoreError as exc:
            self.message_user(request, str(exc), messages.ERROR)
            return
        for tenant_key, lease in by_key.items():
            if tenant_key not in asked:
                silence = _("Nobody holds the lease of %(tenant)s.") % {"tenant": tenant_key}
                self.message_user(request, silence, messages.WARNING)
                continue
            names = {"tenant": tenant_key, "holder": asked[tenant_key].holder_id}
            self.message_user(request, _("Asked %(holder)s to hand over %(tenant)s.") % names, messages.SUCCESS)
            self.log_change(request, lease, f"Asked {names['holder']} to hand over.")

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
