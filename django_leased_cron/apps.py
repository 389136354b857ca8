"""The app as Django sees it."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class LeasedCronConfig(AppConfig):
    name = "django_leased_cron"
    label = "leased_cron"
    verbose_name = _("Leased cron")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register what Django and Celery call later; nothing here touches a database or a broker."""
        from django_leased_cron import checks, worker  # noqa: F401, PLC0415 - models must be loaded first
