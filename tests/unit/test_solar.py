"""Jobs that come due with the sun: when Celery says so, each event once."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import solar

from django_leased_cron.core.outbox import ChangedJob, ChangeKind
from django_leased_cron.core.planning import Planning, parse_planned
from django_leased_cron.core.schedule import first_due, has_same_timetable, next_due
from django_leased_cron.core.solar import EVENTS
from django_leased_cron.exceptions import MalformedJobError
from django_leased_cron.solar import CelerySolarCalculator, build_solar_calculator
from tests.unit.core.job_rows import planning_inputs

HOUR = 3_600_000
DAY = 24 * HOUR
NEW_YEAR = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
NEW_YORK = {"latitude": Decimal("40.7128"), "longitude": Decimal("-74.006")}
TROMSO = {"latitude": Decimal("69.6492"), "longitude": Decimal("18.9553")}
SUNSET = {"solar_id": "4", "solar_event": "sunset", "solar_latitude": "40.712800", "solar_longitude": "-74.006000"}
CALCULATOR = CelerySolarCalculator()


def find_from(after_ms: int, event: str, *, count: int, **place: Decimal) -> list[int]:
    found: list[int] = []
    for _ in range(count):
        due = CALCULATOR.find_next(event, **place, after_ms=found[-1] if found else after_ms)
        if due is None:
            break
        found.append(due)
    return found


def find_in_celery(after_ms: int, event: str, *, latitude: Decimal, longitude: Decimal) -> float:
    """Return when Celery's own schedule is due next that ran five seconds after a moment."""
    ran_at = datetime.fromtimestamp(after_ms / 1000, UTC) + timedelta(seconds=5)
    schedule: Any = solar(event, latitude, longitude, nowfun=lambda: ran_at)  # type: ignore[arg-type] # as rows pass them
    return float(schedule.remaining_estimate(ran_at).total_seconds() * 1000 + after_ms + 5000)


def local_time(at_ms: int, zone: str) -> str:
    return datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M")


def parse(**changes: str) -> Any:
    return parse_planned(planning_inputs(**SUNSET | changes), UTC, CALCULATOR)


def test_events_are_those_of_celery() -> None:
    """Whatever a row of django-celery-beat may say."""
    assert set(EVENTS) == solar._all_events  # type: ignore[attr-defined] # typed without it


def test_sun_sets_when_the_almanac_says_so() -> None:
    """New York, at midsummer and midwinter."""
    midsummer, midwinter = NEW_YEAR + 171 * DAY, NEW_YEAR + 354 * DAY
    for after_ms, time in [(midsummer, "2026-06-20 20:30"), (midwinter, "2026-12-21 16:31")]:
        [due] = find_from(after_ms, "sunset", count=1, **NEW_YORK)
        assert local_time(due, "America/New_York") == time


@pytest.mark.parametrize("event", EVENTS)
def test_celery_finds_the_same_events(event: str) -> None:
    """A few days of them; it rounds by where it begins to search."""
    for due, later in pairwise(find_from(NEW_YEAR, event, count=4, **NEW_YORK)):
        assert find_in_celery(due, event, **NEW_YORK) == pytest.approx(later, abs=200)


def test_days_without_the_event_have_none() -> None:
    """In Tromsø the sun sets last on 18 May, half an hour after midnight, and next on 26 July."""
    found = find_from(NEW_YEAR + 135 * DAY, "sunset", count=3, **TROMSO)
    assert [local_time(at, "Europe/Oslo")[:10] for at in found] == ["2026-05-17", "2026-05-18", "2026-07-26"]


def test_place_that_never_sees_the_event_has_no_next_one() -> None:
    """At the pole the sun stays above or below each horizon for weeks; the job is planned for never."""
    assert first_due(parse(solar_latitude="90"), now_ms=NEW_YEAR, anchor_ms=None) is None


def test_start_and_expiry_hold_for_the_sun_as_well() -> None:
    """No sunset before the one, none after the other."""
    schedule = parse(start_time="2026-03-01 00:00:00", expires="2026-03-03 00:00:00")
    found = [first_due(schedule, now_ms=NEW_YEAR, anchor_ms=None)]
    while found[-1] is not None:
        found.append(next_due(schedule, after_ms=found[-1], base_ms=found[-1]))
    days = [None if at is None else local_time(at, "America/New_York")[:10] for at in found]
    assert days == ["2026-03-01", "2026-03-02", None]


@pytest.mark.parametrize("year", [1, 1969, 9998])
def test_any_year_has_a_noon(year: int) -> None:
    """People write the first or last date there is to say "always" or "never"."""
    new_year = (datetime(year, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    [due] = find_from(new_year, "solar_noon", count=1, **NEW_YORK)
    assert new_year < due <= new_year + DAY


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"solar_event": "moonrise"}, "solar_event", "must be one of dawn_astronomical"),
        ({"solar_latitude": "90.000001"}, "solar_latitude", "degrees from -90 to 90"),
        ({"solar_latitude": "north"}, "solar_latitude", "degrees from -90 to 90"),
        ({"solar_longitude": "-180.000001"}, "solar_longitude", "degrees from -180 to 180"),
        ({"solar_longitude": "NaN"}, "solar_longitude", "degrees from -180 to 180"),
        ({"solar_longitude": "Infinity"}, "solar_longitude", "degrees from -180 to 180"),
        ({"solar_longitude": ""}, "solar_longitude", "degrees from -180 to 180"),
    ],
)
def test_no_such_event_or_place_is_refused(changes: dict[str, str], field: str, words: str) -> None:
    """With its column and what would be right."""
    with pytest.raises(MalformedJobError, match=words) as caught:
        parse(**changes)
    assert caught.value.field == field


def test_job_is_flagged_where_the_extra_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason says what to do about it; the others of the tenant go on."""
    monkeypatch.setitem(sys.modules, "ephem", None)
    planning = Planning(storage_zone=UTC, goes_on_from_last_run=False, solar_calculator=build_solar_calculator())
    write = planning.plan(new_job(), now_ms=NEW_YEAR)
    assert (write.next_due_at_ms, "pip install 'django-leased-cron[solar]'" in write.error) == (None, True)


def test_job_is_planned_where_the_extra_is_installed() -> None:
    """For the next sunset."""
    planning = Planning(storage_zone=UTC, goes_on_from_last_run=False, solar_calculator=build_solar_calculator())
    write = planning.plan(new_job(), now_ms=NEW_YEAR)
    assert ([write.next_due_at_ms], write.error) == (find_from(NEW_YEAR, "sunset", count=1, **NEW_YORK), "")


def test_databases_write_the_same_place_in_their_own_ways() -> None:
    """SQLite leaves out zeros; an edit that changes nothing keeps the slot."""
    assert has_same_timetable(parse(), parse(solar_latitude="40.7128", solar_longitude="-74.006"))
    assert not has_same_timetable(parse(), parse(solar_latitude="40.7129"))


def new_job() -> ChangedJob:
    return ChangedJob(
        job_id=1,
        kind=ChangeKind.NEW,
        inputs=planning_inputs(**SUNSET),
        next_due_at_ms=None,
        planned_inputs="",
        last_run_at=None,
    )
