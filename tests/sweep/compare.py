"""The code's due instants beside the oracle's."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from django_leased_cron.core.crontab import parse_crontab
from django_leased_cron.core.recurrence import CrontabRecurrence
from tests.sweep.oracle import due_by_the_letter, watch
from tests.sweep.stretches import Stretch

# Typical ones, and those that the turning of clocks is hardest on: in crontab(5)'s order.
CRONTABS = (
    "* * * * *",
    "*/5 * * * *",
    "*/15 * * * *",
    "0 * * * *",
    "30 * * * sun",
    "*/13 */1 * 3,4,10,11 *",
    "0 0 * * *",
    "30 0 * * *",
    "59 23 * * *",
    "30 2 * * *",
    "*/20 2 * * *",
    "* 1-3 * * *",
    "*/10 0-22 * * *",
    "15 22-2 * * *",
    "0 */6 * * *",
    "0,30 1-23/2 * * *",
    "0 9 * * mon-fri",
    "45 1 * * sun",
    "0 0 1 * *",
    "0 3 28-31 * sat,sun",
    "30 1 29 2 mon",
)
# Other moments than due ones to ask from: every now and then, on no round second.
_ASKED_EVERY = 7 * 3600 + 1234


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What the two say of one crontab in one stretch, in seconds since the epoch."""

    fields: str
    stretch: Stretch
    only_expected: Sequence[int]
    only_found: Sequence[int]
    asked_from: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How many due instants were compared, and which differ."""

    slots: int
    differences: Sequence[Difference]


def build_recurrence(fields: str, zone: ZoneInfo) -> CrontabRecurrence:
    """Build from the five fields in crontab(5)'s order."""
    minute, hour, day_of_month, month_of_year, day_of_week = fields.split()
    crontab = parse_crontab(
        minute=minute,
        hour=hour,
        day_of_month=day_of_month,
        month_of_year=month_of_year,
        day_of_week=day_of_week,
    )
    return CrontabRecurrence(crontab=crontab, zone=zone)


def due_between(recurrence: CrontabRecurrence, start: int, end: int) -> Iterator[int]:
    """Yield the due instants from ``start`` up to before ``end``, each found from the one before; all in seconds."""
    cursor = start * 1000 - 1
    while (due := recurrence.next_after(cursor)) is not None and due < end * 1000:
        assert due > cursor
        assert due % 1000 == 0
        yield due // 1000
        cursor = due


def compare(stretch: Stretch, crontabs: Sequence[str] = CRONTABS) -> Comparison:
    """Compare what comes due in a stretch."""
    zone = ZoneInfo(stretch.zone)
    watched = watch(zone, start=stretch.start, end=stretch.end)
    slots = 0
    differences = []
    for fields in crontabs:
        expected = due_by_the_letter(fields, watched)
        recurrence = build_recurrence(fields, zone)
        found = list(due_between(recurrence, stretch.start, stretch.end))
        asked_from = [
            after
            for after in range(stretch.start, stretch.end, _ASKED_EVERY)
            if (index := bisect_right(expected, after)) < len(expected)
            and recurrence.next_after(after * 1000) != expected[index] * 1000
        ]
        slots += len(expected)
        if found != expected or asked_from:
            difference = Difference(
                fields=fields,
                stretch=stretch,
                only_expected=sorted(set(expected) - set(found)),
                only_found=sorted(set(found) - set(expected)),
                asked_from=asked_from,
            )
            differences.append(difference)
    return Comparison(slots=slots, differences=differences)
