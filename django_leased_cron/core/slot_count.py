"""Counting the slots of a crontab without visiting each.

Days, weeks or years may have been missed, by many jobs at once, and the holder must not be busy with that for longer
than its work may be owed. Where a zone's clocks are not turned, the slots of a day are a product of the crontab's
fields; only around a turn of the clocks are they walked.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from django_leased_cron.core.crontab import Crontab
from django_leased_cron.core.recurrence import CrontabRecurrence

_DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many slots a span has, and the last of them (0 and ``None`` where it has none)."""

    slots: int
    last_due_at_ms: int | None


def count_slots(recurrence: CrontabRecurrence, *, first_ms: int, end_ms: int) -> Tally:
    """Count the slots from ``first_ms`` on and before ``end_ms``, at the cost of a few microseconds a day."""
    slots, last = 0, None
    at, end = -(-first_ms // 1000), -(-end_ms // 1000)
    while at < end:
        until = min(end, (at // _DAY_S + 1) * _DAY_S)
        offset = _find_lasting_offset(recurrence.zone, at)
        piece = (
            _walk(recurrence, at, until)
            if offset is None
            else _count_readings(recurrence.crontab, at + offset, until + offset, offset=offset)
        )
        if piece.slots:
            slots, last = slots + piece.slots, piece.last_due_at_ms
        at = until
    return Tally(slots=slots, last_due_at_ms=last)


def _find_lasting_offset(zone: ZoneInfo, at: int) -> int | None:
    """Return the zone's offset in the day of an instant, if it is the same a day before and a day after.

    No zone has turned its clocks twice within four days.
    """
    day = at // _DAY_S * _DAY_S
    before, after = (
        datetime.fromtimestamp(moment, UTC).astimezone(zone).utcoffset() for moment in (day - _DAY_S, day + 2 * _DAY_S)
    )
    if before is None or before != after or before.microseconds:
        return None
    return before.days * _DAY_S + before.seconds


def _walk(recurrence: CrontabRecurrence, at: int, until: int) -> Tally:
    slots, last = 0, None
    due_ms = recurrence.next_after(at * 1000 - 1)
    while due_ms is not None and due_ms < until * 1000:
        slots, last = slots + 1, due_ms
        due_ms = recurrence.next_after(due_ms)
    return Tally(slots=slots, last_due_at_ms=last)


@lru_cache(maxsize=1000)
def _find_times(crontab: Crontab) -> tuple[int, ...]:
    """Return the seconds of a day at which a crontab that names the day has its slots, in order."""
    return tuple(hour * 3600 + minute * 60 for hour in crontab.hours for minute in crontab.minutes)


def _count_readings(crontab: Crontab, reading: int, until: int, *, offset: int) -> Tally:
    """Count the slots of local readings, which touch two local days at most."""
    slots, last = 0, None
    while reading < until:
        midnight = reading // _DAY_S * _DAY_S
        day_end = min(until, midnight + _DAY_S)
        first_of_day = crontab.first_slot(midnight)
        if first_of_day is not None and first_of_day < midnight + _DAY_S:
            times = _find_times(crontab)
            low, high = bisect_left(times, reading - midnight), bisect_left(times, day_end - midnight)
            if high > low:
                slots, last = slots + high - low, midnight + times[high - 1]
        reading = day_end
    return Tally(slots=slots, last_due_at_ms=None if last is None else (last - offset) * 1000)
