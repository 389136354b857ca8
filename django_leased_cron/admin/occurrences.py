"""What became of each due occurrence: the outbox and the history."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from functools import cached_property
from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from django_leased_cron.admin.generics import AnyPaginator
from django_leased_cron.admin.machine_state import MachineStateAdmin, instant_column
from django_leased_cron.admin.outcomes import find_lateness_ms, shorten
from django_leased_cron.display import show_duration
from django_leased_cron.models import JobPolicy, Occurrence

_DAYS_OFFERED = 8


class BoundedPaginator(AnyPaginator):
    """Counts no further than people page: counting millions of rows takes seconds at every click."""

    most = 10_000

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[: self.most].count())


class DayFilter(admin.SimpleListFilter):
    """One local day; ``?day=2026-03-29`` names any."""

    title = _("day")
    parameter_name = "day"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        today = timezone.localdate()
        names = {0: _("Today"), 1: _("Yesterday")}
        days = [(today - timedelta(days=ago), names.get(ago)) for ago in range(_DAYS_OFFERED)]
        return [(day.isoformat(), name or day.isoformat()) for day, name in days]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        text = self.value()
        if text is None:
            return queryset
        try:
            day = date.fromisoformat(text)
            start_ms, end_ms = _find_midnight_ms(day), _find_midnight_ms(day + timedelta(days=1))
        except (ValueError, OverflowError) as exc:
            raise IncorrectLookupParameters from exc
        return queryset.filter(due_at_ms__gte=start_ms, due_at_ms__lt=end_ms)


def _find_midnight_ms(day: date) -> int:
    midnight = datetime.combine(day, time.min, tzinfo=timezone.get_current_timezone())
    return int(midnight.timestamp()) * 1000


@admin.register(Occurrence)
class OccurrenceAdmin(MachineStateAdmin):
    list_display = (
        "due_at",
        "job_link",
        "state",
        "short_reason",
        "lateness",
        "attempt",
        "epoch",
        "claimed_at",
        "sent_at",
        "started_at",
        "finished_at",
    )
    fields = (
        "job_link",
        "due_at",
        "first_due_at",
        "slots",
        "state",
        "reason",
        "lateness",
        "task_id",
        "delivery",
        "attempt",
        "run_attempt",
        "epoch",
        "claimed_at",
        "sent_at",
        "started_at",
        "finished_at",
    )
    list_filter = ("state", DayFilter)
    search_fields = ("job_name", "task_id")
    search_help_text = _("A part of a job's name, or a task id.")
    ordering = ("-pk",)  # the newest first, by the index that every table has
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER

    due_at = instant_column("due_at_ms", _("due"))
    first_due_at = instant_column("first_due_at_ms", _("first due"))
    claimed_at = instant_column("claimed_at_ms", _("claimed"))
    sent_at = instant_column("sent_at_ms", _("sent"))
    started_at = instant_column("started_at_ms", _("started"))
    finished_at = instant_column("finished_at_ms", _("finished"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # Never joined with the job, which may be deleted.
        policies = JobPolicy.objects.filter(pk=OuterRef("job_id"))
        occurrences: QuerySet[Any] = super().get_queryset(request)
        occurrences = occurrences.annotate(jitter_s=Subquery(policies.values("jitter_s")[:1]))
        return occurrences

    @admin.display(description=_("job"), ordering="job_name")
    def job_link(self, occurrence: Any) -> SafeString:
        page = reverse("admin:django_celery_beat_periodictask_change", args=[occurrence.job_id])
        return format_html('<a href="{}">{}</a>', page, occurrence.job_name or f"job {occurrence.job_id}")

    @admin.display(description=_("reason"))
    def short_reason(self, occurrence: Any) -> str:
        slots = f" ({occurrence.slots} slots)" if occurrence.slots > 1 else ""
        return f"{shorten(occurrence.reason)}{slots}"

    @admin.display(description=_("lateness"))
    def lateness(self, occurrence: Any) -> str:
        lateness_ms = find_lateness_ms(
            job_id=occurrence.job_id,
            due_at_ms=occurrence.due_at_ms,
            sent_at_ms=occurrence.sent_at_ms,
            jitter_s=occurrence.jitter_s or 0,
        )
        return str(self.get_empty_value_display()) if lateness_ms is None else show_duration(lateness_ms)
