"""Crontab rows that load whatever they hold.

django-celery-beat's field fails on the name of a zone that this machine does not know, and its translation on an empty
field: one such row would take the pages of all jobs away, where its error is to be seen (I8).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

from celery.schedules import ParseException
from django.db.models import F, QuerySet, TextField
from django.db.models.functions import Cast
from django_celery_beat.models import CrontabSchedule

from django_leased_cron.admin.generics import AnyModelIterable


class _TolerantIterable(AnyModelIterable):
    """Puts the zone in place without asking the field; an unknown one stays the text that it is."""

    def __iter__(self) -> Iterator[Any]:
        for crontab in super().__iter__():
            crontab.__dict__["timezone"] = _read_zone(crontab.zone_text)
            yield crontab


def find_crontabs() -> QuerySet[Any]:
    """Return all crontab rows, to look at."""
    crontabs: QuerySet[Any] = CrontabSchedule.objects.defer("timezone")
    crontabs = crontabs.annotate(zone_text=Cast(F("timezone"), TextField()))
    crontabs._iterable_class = _TolerantIterable
    return crontabs


def translate(crontab: Any) -> str:
    """Return django-celery-beat's translation of a crontab, or its bare fields where there is none."""
    try:
        return str(crontab.human_readable)
    except ParseException:
        return str(crontab)


def _read_zone(text: str) -> ZoneInfo | str:
    try:
        return ZoneInfo(text)
    except (LookupError, ValueError, OSError):  # not found, no zone's name, a folder of zones
        return text
