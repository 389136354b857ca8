"""Which of the two, code or rows, has the last word."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from celery import Celery

from django_leased_cron.exceptions import ConfigurationError
from django_leased_cron.setting_values import suggestion

OPTION: Final = "leased_cron_sync"
"""Celery's configuration, and not ``LEASED_CRON``: it belongs to ``beat_schedule``, which stands there too."""


class SyncMode(StrEnum):
    CREATE_ONLY = "create_only"
    UPDATE = "update"
    MIRROR = "mirror"


def read_mode(app: Celery) -> SyncMode:
    """Return the mode that the app's configuration names.

    Raises:
        ConfigurationError: there is no such mode.
    """
    written = app.conf.get(OPTION, SyncMode.CREATE_ONLY)
    try:
        return SyncMode(written)
    except ValueError as exc:
        known = [mode.value for mode in SyncMode]
        hint = suggestion(written, known) or f"Write one of {', '.join(map(repr, known))}."
        raise ConfigurationError([f"Celery's configuration: {OPTION} is {written!r}. {hint}"]) from exc
