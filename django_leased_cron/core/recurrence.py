"""When jobs come due: crontabs on a zone's clocks, fixed cadences, single instants; the sun has its own module.

Daylight saving, one rule for every crontab and every change of a zone's offset:

* The hour field restricts hours: a *wall-clock* job. Each local slot fires once, at the first instant at which the
  zone's clocks read the slot or later. So a slot inside the spring gap fires at the end of the gap, together with
  whatever else falls there; a slot in the autumn fold fires the first time only.
* The hour field covers all 24 hours: an *elapsed-time* job. It fires at every real instant at which the clocks read
  a slot. ``*/15`` is every 15 real minutes, both nights; what the spring gap leaves out does not exist.

The rule of wall-clock jobs makes the due instants grow with the slots, so nothing is walked: the clocks' highest
reading so far gives the next slot, the slot gives its instant.

Outside facts: no zone known to the tz database turns its clocks by more than a day or twice within a day (checked on
2026f; the nearest two changes of a zone are four days apart). No job comes due in the year 9999 or later.

Instants are milliseconds since the Unix epoch at the edge of this module and whole seconds inside; for *readings* see
:mod:`~django_leased_cron.core.crontab`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from django_leased_cron.core.crontab import DAY_S, Crontab
from django_leased_cron.core.solar import SolarRecurrence

_LOCAL_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the zero of readings, which have no zone
_END_S: Final = int(datetime(9999, 1, 1, tzinfo=UTC).timestamp())
END_MS: Final = _END_S * 1000
"""No job comes due at or after this instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrontabRecurrence:
    """The slots of a crontab on the clocks of a zone."""

    crontab: Crontab
    zone: ZoneInfo

    def next_after(self, after_ms: int) -> int | None:
        """Return the first due instant strictly later than ``after_ms``."""
        after = after_ms // 1000  # due instants are whole seconds: later than this one is later than after_ms
        if after >= _END_S:
            return None
        due = self._next_elapsed(after) if self.crontab.covers_every_hour else self._next_on_the_wall(after)
        return None if due is None else due * 1000

    def _next_on_the_wall(self, after: int) -> int | None:
        slot = self.crontab.first_slot(_highest_reading(self.zone, after) + 1)
        return None if slot is None else _first_reached(self.zone, slot)

    def _next_elapsed(self, after: int) -> int | None:
        at = after + 1  # nothing is due between ``after`` and here
        while True:
            reading = _read(self.zone, at)
            slot = self.crontab.first_slot(reading)
            if slot is None:
                return None
            due = at + slot - reading  # unless the clocks are turned before
            ahead = min(due, at + DAY_S)
            if _read(self.zone, ahead) - ahead != reading - at:
                at = _find_turn(self.zone, before=at, after=ahead)
            elif ahead == due:
                return due
            else:
                # From here a fold repeats only readings later than the one at ``at``, of which none before the slot
                # matches; and no zone is a day ahead of UTC, so the slot is not read before this:
                at = max(ahead, slot - DAY_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalRecurrence:
    """A fixed cadence: any slot of it gives all others."""

    every_ms: int

    def next_after(self, after_ms: int, *, base_ms: int) -> int:
        """Return the first instant of the cadence through ``base_ms`` strictly later than ``after_ms``."""
        return after_ms + self.every_ms - (after_ms - base_ms) % self.every_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockedRecurrence:
    """A single instant."""

    at_ms: int


Recurrence = CrontabRecurrence | IntervalRecurrence | ClockedRecurrence | SolarRecurrence


def _read(zone: ZoneInfo, at: int) -> int:
    """Return what the zone's clocks read at an instant."""
    since_epoch = datetime.fromtimestamp(at, zone).replace(tzinfo=None) - _LOCAL_EPOCH
    return since_epoch.days * DAY_S + since_epoch.seconds


def _locate(zone: ZoneInfo, reading: int, *, fold: int) -> int:
    """Return the instant of a reading; in a gap, with fold 0 one after its end and with fold 1 one before (PEP 495)."""
    local = _LOCAL_EPOCH + timedelta(seconds=reading)
    return int(local.replace(tzinfo=zone, fold=fold).timestamp())


def _highest_reading(zone: ZoneInfo, at: int) -> int:
    """Return the latest reading that the zone's clocks have shown up to an instant."""
    reading = _read(zone, at)
    if not datetime.fromtimestamp(at, zone).fold:
        return reading
    return _read(zone, _find_turn(zone, before=_locate(zone, reading, fold=0), after=at) - 1)


def _first_reached(zone: ZoneInfo, reading: int) -> int:
    """Return the first instant at which the zone's clocks show a reading or a later one."""
    at = _locate(zone, reading, fold=0)
    if _read(zone, at) == reading:
        return at
    return _find_turn(zone, before=_locate(zone, reading, fold=1), after=at)


def _find_turn(zone: ZoneInfo, *, before: int, after: int) -> int:
    """Return the instant between the two at which the zone's clocks are turned: the first of the new offset."""
    old_offset = _read(zone, before) - before
    while after - before > 1:
        middle = (before + after) // 2
        if _read(zone, middle) - middle == old_offset:
            before = middle
        else:
            after = middle
    return after
