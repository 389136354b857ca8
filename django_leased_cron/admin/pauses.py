"""The part of a form that pauses something: until when as a date-time, by whom from the request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django import forms
from django.contrib.admin.widgets import AdminSplitDateTime
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_leased_cron.admin.generics import AnyModelForm
from django_leased_cron.display import to_datetime

PAUSE_FIELDS: Final = ("paused", "paused_reason", "paused_until", "paused_by")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_NAME: Final = 150


class PauseForm(AnyModelForm):
    """A form of a model that can be paused."""

    paused_until = forms.SplitDateTimeField(
        label=_("Paused until"),
        required=False,
        widget=AdminSplitDateTime(),
        help_text=_("Empty: until somebody resumes it."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.paused_until_ms is not None:
            self.initial.setdefault("paused_until", to_datetime(self.instance.paused_until_ms))

    def clean_paused_until(self) -> datetime | None:
        until: datetime | None = self.cleaned_data["paused_until"]
        if until is None:
            return None
        if timezone.is_naive(until):
            until = timezone.make_aware(until)
        if "paused_until" in self.changed_data and until <= timezone.now():
            raise ValidationError(_("This is in the past: give a later time, or none."))
        return until

    def sign(self, username: str) -> None:
        """Complete the row before it is saved: who paused it, until when; of a pause that is over nothing is kept."""
        pause = self.instance
        if not pause.paused:
            pause.paused_by = pause.paused_reason = ""
            pause.paused_until_ms = None
            return
        if "paused" in self.changed_data:
            pause.paused_by = username[:_LONGEST_NAME]
        until: datetime | None = self.cleaned_data["paused_until"]
        pause.paused_until_ms = None if until is None else (until - _EPOCH) // timedelta(milliseconds=1)
