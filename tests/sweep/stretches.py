"""Which stretches of which zones' time are swept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from tests.sweep.oracle import DAY, read

FIRST_YEAR, LAST_YEAR = 2000, 2037
_EACH_SIDE = 3 * DAY
_HOUR = 3600

# What each is there for: Europe's rule, America's, half an hour, a day left out, the south, negative DST, Ramadan, a
# new offset for good, two hours, a turn at midnight, one at 00:01, an odd offset, half an hour for good, none at all.
WHOLE_YEARS = (
    ("Europe/Berlin", 2026),
    ("America/New_York", 2026),
    ("Australia/Lord_Howe", 2027),
    ("Pacific/Apia", 2011),
    ("America/Santiago", 2026),
    ("Europe/Dublin", 2026),
    ("Africa/Casablanca", 2026),
    ("Asia/Pyongyang", 2018),
    ("Antarctica/Troll", 2026),
    ("America/Havana", 2026),
    ("America/St_Johns", 2006),
    ("Asia/Kathmandu", 2026),
    ("America/Caracas", 2016),
    ("UTC", 2028),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """Zones whose clocks read the same from the first year to the last, and the instants at which they are turned."""

    zones: Sequence[str]
    turns: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Some of a zone's time, in seconds since the epoch, ``end`` exclusive."""

    zone: str
    start: int
    end: int


Turns = tuple[int, Sequence[tuple[int, int]]]
"""The first offset of a zone, and each change of it: the instant and the new offset."""


def find_turns(key: str, *, first_year: int = FIRST_YEAR, last_year: int = LAST_YEAR) -> Turns:
    """Follow a zone's offset; looks once an hour."""
    zone = ZoneInfo(key)
    start, end = _start_of(first_year), _start_of(last_year + 1)
    first_offset = offset = read(zone, start) - start
    turns = []
    for at in range(start, end, _HOUR):
        if read(zone, at) - at != offset:
            turn = next(second for second in range(at - _HOUR + 1, at + 1) if read(zone, second) - second != offset)
            offset = read(zone, at) - at
            turns.append((turn, offset))
    return first_offset, turns


def group_by_clocks(turns: Mapping[str, Turns]) -> Sequence[Clocks]:
    """Put the zones together whose clocks cannot be told apart; those turned most often come first."""
    groups: defaultdict[tuple[int, tuple[tuple[int, int], ...]], list[str]] = defaultdict(list)
    for key, (first_offset, found) in turns.items():
        groups[first_offset, tuple(found)].append(key)
    clocks = [Clocks(zones=zones, turns=[at for at, _ in found]) for (_, found), zones in groups.items()]
    return sorted(clocks, key=lambda each: (-len(each.turns), each.zones))


def around_turns(clocks: Clocks) -> Iterator[Stretch]:
    """Yield three days on each side of each turn."""
    for turn in clocks.turns:
        start = (turn - _EACH_SIDE) // _HOUR * _HOUR
        yield Stretch(zone=clocks.zones[0], start=start, end=start + 2 * _EACH_SIDE)


def whole_years() -> Iterator[Stretch]:
    for zone, year in WHOLE_YEARS:
        yield Stretch(zone=zone, start=_start_of(year), end=_start_of(year + 1))


def _start_of(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
