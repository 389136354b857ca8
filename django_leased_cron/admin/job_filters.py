"""Finding the jobs that are not planned, and why, and those that the code no longer has."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _


class PlanFilter(admin.SimpleListFilter):
    title = _("plan")
    parameter_name = "plan"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("error", _("Has an error")), ("finished", _("Finished")), ("unplanned", _("Not planned yet"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        at_rest = Q(leased_cron_state__error="", leased_cron_state__next_due_at_ms=None)
        match self.value():
            case "error":
                return queryset.filter(leased_cron_state__error__gt="")
            case "finished":
                # A one-off that had its run is switched off; others end by themselves, at their expiry.
                had_its_run = Q(one_off=True, leased_cron_state__last_due_at_ms__isnull=False)
                has_ended = Q(enabled=True, leased_cron_state__inputs__gt="")
                return queryset.filter(at_rest, had_its_run | has_ended)
            case "unplanned":
                unseen = Q(leased_cron_state=None) | Q(at_rest, leased_cron_state__inputs="")
                return queryset.filter(unseen, enabled=True)
            case _:
                return queryset


class CodeFilter(admin.SimpleListFilter):
    title = _("code")
    parameter_name = "code"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("in_code", _("In beat_schedule")), ("orphaned", _("No longer in beat_schedule"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        match self.value():
            case "in_code" | "orphaned" as value:
                return queryset.filter(leased_cron_code__in_code=value == "in_code")
            case _:
                return queryset
