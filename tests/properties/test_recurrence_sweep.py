"""Crontabs beside the oracle: a sample of what ``make sweep`` compares in full."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.fields import FIELDS
from tests.sweep import compare as comparing
from tests.sweep.compare import CRONTABS, build_recurrence, compare, due_between
from tests.sweep.oracle import DAY, Watched, due_by_the_letter, watch
from tests.sweep.stretches import Stretch, around_turns, find_turns, group_by_clocks

NIGHTS = [
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    ("Europe/Berlin", "2090-10-29"),  # beyond the table, by the zone's rule
    ("America/New_York", "2026-03-08"),
    ("America/New_York", "2026-11-01"),
    ("Europe/Dublin", "2026-03-29"),  # negative DST: winter is the deviation
    ("Europe/Dublin", "2026-10-25"),
    ("Australia/Lord_Howe", "2026-10-04"),  # half an hour
    ("Australia/Lord_Howe", "2027-04-04"),
    ("Antarctica/Troll", "2026-03-29"),  # two hours
    ("Antarctica/Troll", "2026-10-25"),
    ("America/Havana", "2026-03-08"),  # at midnight
    ("America/Havana", "2026-11-01"),
    ("America/Sao_Paulo", "2018-02-18"),  # back from midnight into the day before
    ("America/St_Johns", "2006-10-29"),  # back at 00:01 into the day before
    ("Africa/Casablanca", "2026-02-15"),  # for Ramadan
    ("Asia/Pyongyang", "2015-08-15"),  # a new offset, no DST
    ("Asia/Pyongyang", "2018-05-05"),
    ("Antarctica/Vostok", "1994-02-01"),  # back by seven hours
    ("Pacific/Apia", "2011-12-30"),  # a day that does not exist
    ("Asia/Kathmandu", "2026-06-01"),  # an odd offset, no change
]
# Clocks that were set by the sun: turned at a second that is no whole minute. Each offset is a multiple of the step.
NIGHTS_WITH_SECONDS = [
    ("Europe/Paris", "1911-03-11", 3),  # back by 9 minutes and 21 seconds
    ("Europe/Dublin", "1916-10-01", 3),  # back by 34 minutes and 39 seconds
    ("Africa/Monrovia", "1972-01-07", 30),  # on by 44 minutes and 30 seconds
]
# Without every minute and every fifth one: they cost as much as all the others.
SAMPLE = CRONTABS[2:]


@cache
def watch_around(zone: str, day: str, *, step: int = 60) -> Watched:
    """Watch the clocks from a day before to a day after."""
    start = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) - DAY
    return watch(ZoneInfo(zone), start=start, end=start + 3 * DAY, step=step)


@pytest.mark.parametrize(("zone", "day"), NIGHTS)
def test_typical_crontabs_come_due_by_the_letter_of_the_rule(zone: str, day: str) -> None:
    """On nights of every kind."""
    watched = watch_around(zone, day)
    comparison = compare(Stretch(zone=zone, start=watched.start, end=watched.end), SAMPLE)
    assert comparison.slots > 500
    assert comparison.differences == []


@pytest.mark.parametrize(("zone", "day", "step"), NIGHTS_WITH_SECONDS)
def test_clocks_that_were_turned_by_odd_seconds_are_followed(zone: str, day: str, step: int) -> None:
    """Wherever the gap or the fold begins within a minute."""
    watched = watch_around(zone, day, step=step)
    found = {
        fields: list(due_between(build_recurrence(fields, ZoneInfo(zone)), watched.start, watched.end))
        for fields in CRONTABS
    }
    assert found == {fields: due_by_the_letter(fields, watched) for fields in CRONTABS}


@pytest.mark.parametrize(("zone", "day"), NIGHTS)
@settings(max_examples=8)
@given(fields=FIELDS, waited=st.integers(0, 36 * 60))
def test_any_crontab_comes_due_by_the_letter_of_the_rule(zone: str, day: str, fields: str, waited: int) -> None:
    """From any moment on."""
    watched = watch_around(zone, day)
    start = watched.start + waited * 60
    expected = [at for at in due_by_the_letter(fields, watched) if at >= start]
    assert list(due_between(build_recurrence(fields, ZoneInfo(zone)), start, watched.end)) == expected


def test_every_turn_of_a_zone_is_found() -> None:
    """Two a year, to the second, and Berlin's clocks are not told apart from Rome's."""
    zones = ["Africa/Lagos", "Europe/Berlin", "Europe/London", "Europe/Rome"]
    turns = {zone: find_turns(zone, first_year=2026, last_year=2026) for zone in zones}
    clocks = group_by_clocks(turns)
    assert [each.zones for each in clocks] == [["Europe/Berlin", "Europe/Rome"], ["Europe/London"], ["Africa/Lagos"]]
    in_berlin = clocks[0]
    assert [datetime.fromtimestamp(at, UTC).isoformat() for at in in_berlin.turns] == [
        "2026-03-29T01:00:00+00:00",
        "2026-10-25T01:00:00+00:00",
    ]
    assert [(stretch.start, stretch.end) for stretch in around_turns(in_berlin)] == [
        (turn - 3 * DAY, turn + 3 * DAY) for turn in in_berlin.turns
    ]


def test_comparison_finds_a_job_on_the_wrong_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """UTC has no summer time."""
    monkeypatch.setattr(comparing, "build_recurrence", lambda fields, _: build_recurrence(fields, ZoneInfo("UTC")))
    watched = watch_around("Europe/London", "2026-03-29")
    comparison = compare(Stretch(zone="Europe/London", start=watched.start, end=watched.end), ["30 1 * * *"])
    [difference] = comparison.differences
    assert [datetime.fromtimestamp(at, UTC).isoformat() for at in difference.only_expected] == [
        "2026-03-29T01:00:00+00:00",
        "2026-03-30T00:30:00+00:00",
    ]
    assert len(difference.only_found) == 2
