"""A job's policy, as a part of the job's page."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from django_leased_cron.admin.generics import AnyStackedInline
from django_leased_cron.admin.pauses import PAUSE_FIELDS, PauseForm
from django_leased_cron.models import JobPolicy


class JobPolicyForm(PauseForm):
    def clean_catch_up_window_s(self) -> int | None:
        window_s: int | None = self.cleaned_data["catch_up_window_s"]
        if window_s is not None and window_s < 0:
            raise ValidationError(_("Give a number of seconds, 0 or more."))
        return window_s


class JobPolicyInline(AnyStackedInline):
    model = JobPolicy
    form = JobPolicyForm
    fields = ("catch_up", "catch_up_window_s", "overlap", "longest_run_s", "jitter_s", "delivery", *PAUSE_FIELDS)
    readonly_fields = ("paused_by",)
    verbose_name_plural = _("policy")
