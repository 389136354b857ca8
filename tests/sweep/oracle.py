"""When a crontab comes due, by the letter of the rule and in the most naive way.

A zone's clocks are watched, step by step of real time, and whatever they read is written down. Nothing here asks for
the instant of a local time, nothing jumps ahead, and Celery reads the fields. Instants are seconds since the Unix
epoch; readings are seconds since the clocks' own 1970-01-01 00:00:00.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from celery.schedules import crontab

MINUTE = 60
DAY = 86_400
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
# What the clocks read before the stretch decides what they repeat in it; no zone turns them by more.
_BEFORE = 2 * DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What the clocks of a zone read in a stretch of real time, ``end`` exclusive.

    Attributes:
        read_at: each reading's instants: two of them where the clocks were turned back.
        reached_at: each reading's first instant at which the clocks read it or a later one, left out ones included.
    """

    start: int
    end: int
    read_at: Mapping[int, list[int]]
    reached_at: Mapping[int, int]


def watch(zone: ZoneInfo, *, start: int, end: int, step: int = MINUTE) -> Watched:
    """Look at the clocks once per step; whole minutes must fall on steps."""
    read_at: dict[int, list[int]] = {}
    reached_at: dict[int, int] = {}
    expected = read(zone, start - _BEFORE)
    for at in range(start - _BEFORE, end, step):
        reading = read(zone, at)
        for left_out in range(expected, reading, step):
            reached_at.setdefault(left_out, at)
        reached_at.setdefault(reading, at)
        read_at.setdefault(reading, []).append(at)
        expected = reading + step
    return Watched(start=start, end=end, read_at=read_at, reached_at=reached_at)


def read(zone: ZoneInfo, at: int) -> int:
    """Return what the clocks read at an instant."""
    offset = datetime.fromtimestamp(at, zone).utcoffset()
    assert offset is not None
    return at + offset.days * DAY + offset.seconds


def due_by_the_letter(fields: str, watched: Watched) -> list[int]:
    """Return the instants, in order, at which a crontab with these fields, in crontab(5)'s order, comes due."""
    minute, hour, day_of_month, month_of_year, day_of_week = fields.split()
    celery_crontab: Any = crontab(minute, hour, day_of_week, day_of_month, month_of_year)  # typed without its fields
    slots = _find_slots(celery_crontab, first=min(watched.reached_at), last=max(watched.reached_at))
    if len(celery_crontab.hour) == 24:
        found = {at for slot in slots for at in watched.read_at.get(slot, ())}
    else:
        found = {watched.reached_at[slot] for slot in slots if slot in watched.reached_at}
    return sorted(at for at in found if watched.start <= at < watched.end)


def _find_slots(celery_crontab: Any, *, first: int, last: int) -> Iterator[int]:
    """Yield the readings that the fields name on the days from one reading to another."""
    for day_number in range(first // DAY, last // DAY + 1):
        day = date.fromordinal(_EPOCH_ORDINAL + day_number)
        if (
            day.month in celery_crontab.month_of_year
            and day.day in celery_crontab.day_of_month
            and day.isoweekday() % 7 in celery_crontab.day_of_week
        ):
            for hour in celery_crontab.hour:
                for minute in celery_crontab.minute:
                    yield day_number * DAY + hour * 3600 + minute * 60
