"""The app as Django sees it."""

from __future__ import annotations

import logging
from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _

logger = logging.getLogger(__name__)


class LeasedCronConfig(AppConfig):
    name = "django_leased_cron"
    label = "leased_cron"
    verbose_name = _("Leased cron")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register what Django and Celery call later; nothing here touches a database or a broker."""
        from django_leased_cron import checks, worker  # noqa: F401, PLC0415 - models must be loaded first
        from django_leased_cron.shared_models import share_models  # noqa: PLC0415 - models must be loaded first

        share_models()
        post_migrate.connect(_install_edit_triggers, sender=self)


def _install_edit_triggers(*, using: str, **options: Any) -> None:
    """Install the triggers again after every ``migrate``: SQLite loses them when a table of theirs is altered."""
    from django_leased_cron.edit_triggers import try_install  # noqa: PLC0415 - models must be loaded first

    problem = try_install(using)
    if problem is not None:
        logger.warning(
            "Edit triggers could not be installed in database %r (%s); edits are found by passes over all jobs.",
            using,
            problem,
            extra={"event": "triggers.not_installed"},
        )
