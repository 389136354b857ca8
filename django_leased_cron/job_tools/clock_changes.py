"""Where a zone's clocks are turned, and what that does to a crontab's due times.

The rule itself is in ``core/recurrence.py``; here it is told to people. Readings are what a zone's clocks show, in
seconds since their 1970-01-01 00:00:00, as in ``core/crontab.py``.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from django_leased_cron.core.crontab import DAY_S, Crontab
from django_leased_cron.core.recurrence import CrontabRecurrence

MOVED: Final = "moved out of the spring gap"
FIRST: Final = "first of two readings"
SECOND: Final = "second of two readings"
_LOCAL_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the zero of readings, which have no zone


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockChange:
    """The instant from which a zone's clocks have another offset; in seconds."""

    at: int
    old_offset: int
    new_offset: int

    @property
    def skipped(self) -> range:
        """The readings that the clocks leave out."""
        return range(self.at + self.old_offset, self.at + self.new_offset)

    @property
    def repeated(self) -> range:
        """The readings that the clocks show twice."""
        return range(self.at + self.new_offset, self.at + self.old_offset)


def describe_reading(recurrence: CrontabRecurrence, due_at_ms: int) -> str:
    """Return what is peculiar about the local reading of a due time, or nothing."""
    due = due_at_ms // 1000
    change = ClockChange(
        at=due,
        old_offset=_find_offset(recurrence.zone, due - 1),
        new_offset=_find_offset(recurrence.zone, due),
    )
    if (
        not recurrence.crontab.covers_every_hour
        and next(_find_slots(recurrence.crontab, change.skipped), None) is not None
    ):
        return MOVED
    local = datetime.fromtimestamp(due, recurrence.zone)
    if local.fold:
        return SECOND
    return FIRST if local.replace(fold=1).utcoffset() != local.utcoffset() else ""


def find_surprises(recurrence: CrontabRecurrence, *, from_ms: int, until_ms: int) -> Iterator[str]:
    """Yield a sentence for each change of the clocks in which a wall-clock slot does not exist or exists twice."""
    if recurrence.crontab.covers_every_hour:
        return  # it fires by elapsed time, and no reading surprises it
    zone = recurrence.zone
    for change in find_changes(zone, from_ms // 1000, until_ms // 1000):
        skipped = list(_find_slots(recurrence.crontab, change.skipped))
        if skipped:
            fires = _show(change.at + change.new_offset)
            yield f"{_show_all(skipped)} is left out by the clocks of {zone.key}; it comes due at {fires}"
        repeated = list(_find_slots(recurrence.crontab, change.repeated))
        if repeated:
            yield f"{_show_all(repeated)} is read twice on the clocks of {zone.key}; it comes due the first time only"


@functools.lru_cache(maxsize=1000)
def find_changes(zone: ZoneInfo, start: int, end: int) -> Sequence[ClockChange]:
    """Return the changes of a zone's clocks between two instants, given in seconds.

    No zone turns its clocks twice within a day, see ``core/recurrence.py``.
    """
    changes = []
    for at in range(start, end, DAY_S):
        until = min(at + DAY_S, end)
        old_offset, new_offset = _find_offset(zone, at), _find_offset(zone, until)
        if old_offset != new_offset:
            instants = range(at, until + 1)
            turned = bisect_left(instants, 1, key=lambda instant: _find_offset(zone, instant) == new_offset)
            changes.append(ClockChange(at=instants[turned], old_offset=old_offset, new_offset=new_offset))
    return changes


def _find_offset(zone: ZoneInfo, at: int) -> int:
    offset = datetime.fromtimestamp(at, UTC).astimezone(zone).utcoffset()
    return 0 if offset is None else offset.days * DAY_S + offset.seconds


def _find_slots(crontab: Crontab, readings: range) -> Iterator[int]:
    reading = readings.start
    while reading in readings:
        slot = crontab.first_slot(reading)
        if slot is None or slot not in readings:
            return
        yield slot
        reading = slot + 1


def _show_all(slots: Sequence[int]) -> str:
    if len(slots) == 1:
        return _show(slots[0])
    return f"{_show(slots[0])} (and {len(slots) - 1} more, to {_show(slots[-1])})"


def _show(reading: int) -> str:
    at = _LOCAL_EPOCH + timedelta(seconds=reading)
    return f"{at:%Y-%m-%d %H:%M:%S}" if at.second else f"{at:%Y-%m-%d %H:%M}"
