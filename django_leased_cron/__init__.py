"""Celery beat, highly available and multi-tenant, with nothing but the database the project already has."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_leased_cron.current import CurrentOccurrence, current_occurrence

__all__ = ["CurrentOccurrence", "current_occurrence"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import what the package offers to tasks only when asked for it: the rest of the package needs no Celery."""
    if name in __all__:
        return getattr(import_module("django_leased_cron.current"), name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
