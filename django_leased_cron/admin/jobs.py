"""django-celery-beat's own pages for jobs, with what becomes of them and with their policies."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from django.contrib import admin
from django.db.models import OuterRef, Prefetch, QuerySet, Subquery
from django.db.models.functions import JSONObject
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django_celery_beat.admin import PeriodicTaskAdmin
from django_celery_beat.models import CrontabSchedule, PeriodicTask

from django_leased_cron.admin.crontabs import find_crontabs, translate
from django_leased_cron.admin.job_filters import CodeFilter, PlanFilter
from django_leased_cron.admin.outcomes import describe_outcome, find_lateness_ms, has_failed
from django_leased_cron.admin.pauses import PauseForm
from django_leased_cron.admin.policies import JobPolicyInline
from django_leased_cron.database.now import read_now_ms
from django_leased_cron.display import show_distance, show_instant
from django_leased_cron.models import JobPolicy, Occurrence


class JobAdmin(PeriodicTaskAdmin):  # type: ignore[misc]  # django-celery-beat has no types
    list_display = ("name", "enabled", "scheduler", "next_due", "last_outcome", "error", "last_run_at", "one_off")
    list_filter = (PlanFilter, CodeFilter, *PeriodicTaskAdmin.list_filter)
    readonly_fields = (*PeriodicTaskAdmin.readonly_fields, "next_due", "last_outcome", "error")
    inlines = (JobPolicyInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        jobs: QuerySet[Any] = super().get_queryset(request).select_related(None)
        latest = Occurrence.objects.filter(job=OuterRef("pk")).order_by("-due_at_ms")
        outcome = latest.values(
            outcome=JSONObject(state="state", reason="reason", due_at_ms="due_at_ms", sent_at_ms="sent_at_ms")
        )
        jobs = jobs.select_related("interval", "solar", "clocked", "leased_cron_state", "leased_cron_policy")
        jobs = jobs.prefetch_related(Prefetch("crontab", queryset=find_crontabs()))
        jobs = jobs.annotate(now_ms=read_now_ms(jobs.db), latest=Subquery(outcome[:1]))
        return jobs

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        fieldsets = super().get_fieldsets(request, obj)
        plan = (None, {"fields": ("next_due", "last_outcome", "error")})
        return [plan, *fieldsets] if obj else list(fieldsets)

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.related_model is CrontabSchedule:
            kwargs.setdefault("queryset", find_crontabs())
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show the form as django-celery-beat does, but with crontab rows that load whatever they hold."""
        translations = {crontab.pk: translate(crontab) for crontab in find_crontabs()}
        context = {"readable_crontabs": translations, **(extra_context or {})}
        page: HttpResponse = super(PeriodicTaskAdmin, self).changeform_view(request, object_id, form_url, context)
        return page

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        for policy in formset.forms:
            if isinstance(policy, PauseForm) and policy.has_changed():
                policy.sign(request.user.get_username())
        super().save_formset(request, form, formset, change)

    @admin.display(description=_("translation"))
    def crontab_translation(self, job: Any) -> str | None:
        return translate(job.crontab) if job.crontab else None

    @admin.display(description=_("next due"), ordering="leased_cron_state__next_due_at_ms")
    def next_due(self, job: Any) -> str:
        words = []
        state = getattr(job, "leased_cron_state", None)
        if state is not None and state.next_due_at_ms is not None:
            zone = getattr(job.crontab, "timezone", None)
            due = show_instant(state.next_due_at_ms, zone=zone if isinstance(zone, ZoneInfo) else None)
            words.append(f"{due} ({show_distance(state.next_due_at_ms, now_ms=job.now_ms)})")
        if _is_paused(getattr(job, "leased_cron_policy", None), now_ms=job.now_ms):
            words.append("paused")
        return ", ".join(words) or self.get_empty_value_display()

    @admin.display(description=_("last outcome"))
    def last_outcome(self, job: Any) -> str:
        if job.latest is None:
            return str(self.get_empty_value_display())
        policy = getattr(job, "leased_cron_policy", None)
        lateness_ms = find_lateness_ms(
            job_id=job.pk,
            due_at_ms=job.latest["due_at_ms"],
            sent_at_ms=job.latest["sent_at_ms"],
            jitter_s=policy.jitter_s if policy else 0,
        )
        state = job.latest["state"]
        words = describe_outcome(state, reason=job.latest["reason"], lateness_ms=lateness_ms)
        history = f"{reverse('admin:leased_cron_occurrence_changelist')}?job={job.pk}"
        link = format_html('<a href="{}">{}</a>', history, words)
        return format_html('<ul class="errorlist"><li>{}</li></ul>', link) if has_failed(state) else link

    @admin.display(description=_("error"), ordering="leased_cron_state__error")
    def error(self, job: Any) -> str:
        """Show why a job is not scheduled (I8)."""
        state = getattr(job, "leased_cron_state", None)
        if state is None or not state.error:
            return str(self.get_empty_value_display())
        return format_html('<span class="errornote">{}</span>', state.error)


def _is_paused(policy: JobPolicy | None, *, now_ms: int) -> bool:
    if policy is None or not policy.paused:
        return False
    return policy.paused_until_ms is None or policy.paused_until_ms > now_ms


def extend_job_pages(site: admin.AdminSite) -> None:
    """Put :class:`JobAdmin` in the place of django-celery-beat's page; one of the project's own stays."""
    if site.is_registered(PeriodicTask) and type(site.get_model_admin(PeriodicTask)) is PeriodicTaskAdmin:
        site.unregister(PeriodicTask)
        site.register(PeriodicTask, JobAdmin)


extend_job_pages(admin.site)  # registered by now, in whatever order the apps are: the import above does it
