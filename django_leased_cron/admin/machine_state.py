"""What all pages of machine state share: nothing can be written, and instants are shown as local date-times."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest

from django_leased_cron.admin.generics import AnyModelAdmin
from django_leased_cron.display import show_instant

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise


class MachineStateAdmin(AnyModelAdmin):
    """Pages to look at: no form, and no action but their own, whatever the user's permissions."""

    actions: Any = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False


def instant_column(field: str, title: str | _StrPromise) -> Callable[[Any, Any], str]:
    """Return a column that shows an integer field as a local date-time; NULL and 0 are no instants."""

    @admin.display(description=title, ordering=field)
    def column(model_admin: Any, row: Any) -> str:
        at_ms: int | None = getattr(row, field)
        return show_instant(at_ms) if at_ms else str(model_admin.get_empty_value_display())

    return column
