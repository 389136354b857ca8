"""When a crontab comes due here and to others: in seconds since the epoch, from ``start`` up to before ``end``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim
from django_celery_beat.tzcrontab import TzAwareCrontab

from tests.sweep.compare import build_recurrence, due_between

FindDue = Callable[[str, ZoneInfo, int, int], Iterable[int]]


def midnight(day: str, zone: ZoneInfo, *, days: int = 0) -> int:
    """Return when a local day begins, or one so many days later."""
    return int((datetime.fromisoformat(day) + timedelta(days=days)).replace(tzinfo=zone).timestamp())


def due_here(fields: str, zone: ZoneInfo, start: int, end: int) -> Iterator[int]:
    """Run through what the code under test finds.

    Raises:
        MalformedJobError: A field is refused.
    """
    yield from due_between(build_recurrence(fields, zone), start, end)


def due_in_celery(fields: str, zone: ZoneInfo, start: int, end: int) -> Iterator[int]:
    """Run through what beat would do with a row of django-celery-beat, were it always on time.

    Raises:
        ValueError: Celery refuses a field.
    """
    minute, hour, day_of_month, month_of_year, day_of_week = fields.split()
    crontab = TzAwareCrontab(minute, hour, day_of_week, day_of_month, month_of_year, tz=zone)
    at = datetime.fromtimestamp(start, UTC) - timedelta(seconds=1)
    while True:
        last_run_at = at.astimezone(zone)
        crontab.nowfun = lambda now=last_run_at: now
        at += crontab.remaining_estimate(last_run_at)
        assert at > last_run_at, "it would run for ever"
        if at.timestamp() >= end:
            return
        yield int(at.timestamp())


def due_in_cronsim(fields: str, zone: ZoneInfo, start: int, end: int) -> Iterator[int]:
    """Run through what cronsim finds.

    Raises:
        CronSimError: cronsim refuses a field.
    """
    found = CronSim(fields, datetime.fromtimestamp(start - 1, zone))
    yield from takewhile(lambda due: due < end, (int(at.timestamp()) for at in found))
