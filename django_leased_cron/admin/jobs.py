"""django-celery-beat's own pages for jobs, with what became of them and with their policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_leased_cron.admin.pauses import PAUSE_FIELDS, PauseForm
from django_leased_cron.models import JobPolicy

if TYPE_CHECKING:
    _StackedInline = admin.StackedInline[JobPolicy, Any]
else:
    _StackedInline = admin.StackedInline

PLAN_FIELDS = ("next_due", "last_outcome", "error")


class JobPolicyForm(PauseForm):
    class Meta:
        model = JobPolicy
        fields: Sequence[str] = ()

    def clean_catch_up_window_s(self) -> int | None:
        window_s: int | None = self.cleaned_data["catch_up_window_s"]
        if window_s is not None and window_s < 0:
            raise ValidationError(_("Give a number of seconds, 0 or more."))
        return window_s


class JobPolicyInline(_StackedInline):
    model = JobPolicy
    form = JobPolicyForm
    fields = (
        ("catch_up", "catch_up_window_s"),
        ("overlap", "longest_run_s"),
        ("jitter_s", "delivery"),
        PAUSE_FIELDS,
    )
    verbose_name_plural = _("policy")


class PlanFilter(admin.SimpleListFilter):
    title = _("plan")
    parameter_name = "plan"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("error", _("Has an error")), ("finished", _("Finished")), ("unplanned", _("Not planned yet"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        done = Q(leased_cron_state__error="", leased_cron_state__next_due_at_ms=None)
        match self.value():
            case "error":
                return queryset.filter(leased_cron_state__error__gt="")
            case "finished":
                # A one-off that had its run is switched off; others end by themselves, at their expiry.
                had_its_run = Q(one_off=True, leased_cron_state__last_due_at_ms__isnull=False)
                ended = Q(enabled=True) & ~Q(leased_cron_state__inputs="")
                return queryset.filter(done, had_its_run | ended, leased_cron_state__isnull=False)
            case "unplanned":
                never = Q(leased_cron_state=None) | Q(done, leased_cron_state__inputs="")
                return queryset.filter(never, enabled=True)
            case _:
                return queryset
