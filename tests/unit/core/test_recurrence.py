"""When crontabs come due on the clocks of a zone, every kind of clock change included."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_leased_cron.core.crontab import DAY_S, Crontab, parse_crontab
from django_leased_cron.core.recurrence import END_MS, CrontabRecurrence

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LOCAL_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the zero of local readings

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


def recurrence(fields: str, zone: str) -> CrontabRecurrence:
    """Build from the five fields in crontab(5)'s order."""
    minute, hour, day_of_month, month_of_year, day_of_week = fields.split()
    crontab = parse_crontab(
        minute=minute,
        hour=hour,
        day_of_month=day_of_month,
        month_of_year=month_of_year,
        day_of_week=day_of_week,
    )
    return CrontabRecurrence(crontab=crontab, zone=ZoneInfo(zone))


def due_between(recurrence: CrontabRecurrence, start: datetime, end: datetime) -> list[datetime]:
    """Return the due instants from ``start`` up to before ``end``."""
    found = []
    cursor = ms(start) - 1
    while (due := recurrence.next_after(cursor)) is not None and due < ms(end):
        assert due > cursor
        found.append(EPOCH + timedelta(milliseconds=due))
        cursor = due
    return found


def ms(at: datetime) -> int:
    return (at - EPOCH) // timedelta(milliseconds=1)


def on(day: str, zone: str, *, days: int = 0) -> datetime:
    """Return the first moment of a local day, ``days`` later."""
    return (datetime.fromisoformat(day) + timedelta(days=days)).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def local_times(fields: str, zone: str, day: str) -> list[str]:
    """Return what the clocks read, with their offset, whenever the job fires on a local day."""
    found = due_between(recurrence(fields, zone), on(day, zone), on(day, zone, days=1))
    return [f"{at.astimezone(ZoneInfo(zone)):%H:%M%z}" for at in found]


def test_quarter_hours_go_on_through_the_repeated_hour() -> None:
    """Every 15 real minutes of a day of 25 hours: no hole of 75 minutes."""
    found = due_between(
        recurrence("*/15 * * * *", "America/New_York"),
        on("2026-11-01", "America/New_York"),
        on("2026-11-02", "America/New_York"),
    )
    assert len(found) == 100
    assert {later - earlier for earlier, later in pairwise(found)} == {timedelta(minutes=15)}


def test_hourly_job_fires_in_both_of_the_repeated_hours() -> None:
    """25 hours, 25 firings; 23 in spring."""
    assert len(local_times("0 * * * *", "America/New_York", "2026-11-01")) == 25
    assert len(local_times("0 * * * *", "America/New_York", "2026-03-08")) == 23


@pytest.mark.parametrize("hours", ["*", "*/1", "0-23", "12-11", "0-11,12-23"])
def test_hour_field_that_leaves_out_no_hour_counts_real_time(hours: str) -> None:
    """What counts is the hours that the field names, not how it is written."""
    assert len(local_times(f"30 {hours} * * *", "Europe/Berlin", "2026-10-25")) == 25


@pytest.mark.parametrize("hours", ["0-22", "1-23", "2"])
def test_hour_field_that_leaves_out_an_hour_follows_the_clock(hours: str) -> None:
    """Each local slot fires once in the autumn fold: the first time."""
    assert local_times(f"30 {hours} * * *", "Europe/Berlin", "2026-10-25").count("02:30+0200") == 1
    assert "02:30+0100" not in local_times(f"30 {hours} * * *", "Europe/Berlin", "2026-10-25")


def test_slot_in_the_spring_gap_fires_at_its_end() -> None:
    """02:30 does not exist that day: 03:00 summer time instead, once."""
    assert local_times("30 2 * * *", "Europe/Berlin", "2026-03-29") == ["03:00+0200"]


def test_several_slots_in_the_spring_gap_fire_together() -> None:
    """02:00, 02:20 and 02:40 are one firing."""
    assert local_times("*/20 2 * * *", "Europe/Berlin", "2026-03-29") == ["03:00+0200"]


def test_slot_at_the_end_of_the_gap_fires_together_with_those_inside() -> None:
    """02:30 and 03:00 come to the same moment."""
    assert local_times("0,30 2,3 * * *", "Europe/Berlin", "2026-03-29") == ["03:00+0200", "03:30+0200"]


def test_half_an_hour_repeated_repeats_no_slot() -> None:
    """Lord Howe turns back from 02:00 to 01:30."""
    zone, day = "Australia/Lord_Howe", "2027-04-04"
    assert local_times("*/20 2 * * *", zone, day) == ["02:00+1030", "02:20+1030", "02:40+1030"]
    assert local_times("*/20 1 * * *", zone, day) == ["01:00+1100", "01:20+1100", "01:40+1100"]


def test_day_that_does_not_exist_fires_at_its_end() -> None:
    """Samoa went from 29 to 31 December 2011."""
    zone = "Pacific/Apia"
    found = due_between(recurrence("0 9 * * *", zone), on("2011-12-29", zone), on("2012-01-01", zone))
    assert [f"{at.astimezone(ZoneInfo(zone)):%d %H:%M}" for at in found] == ["29 09:00", "31 00:00", "31 09:00"]


def test_elapsed_time_job_has_no_slot_on_a_day_that_does_not_exist() -> None:
    """Nothing reads 30 December 2011 in Samoa; the next one is a year on."""
    first = recurrence("0 * 30 12 *", "Pacific/Apia").next_after(ms(datetime(2011, 12, 1, tzinfo=UTC)))
    assert first == ms(datetime(2012, 12, 29, 10, tzinfo=UTC))


@pytest.mark.parametrize(
    ("zone", "due"),
    [
        ("Asia/Kolkata", datetime(2026, 6, 1, 23, 30, tzinfo=UTC)),
        ("Asia/Kathmandu", datetime(2026, 6, 1, 23, 15, tzinfo=UTC)),
        ("Pacific/Apia", datetime(2026, 6, 1, 16, tzinfo=UTC)),
        ("Antarctica/Troll", datetime(2026, 6, 2, 3, tzinfo=UTC)),
    ],
)
def test_odd_offset_is_honoured(zone: str, due: datetime) -> None:
    """Five in the morning, wherever that is."""
    assert recurrence("0 5 * * *", zone).next_after(ms(datetime(2026, 6, 1, 12, tzinfo=UTC))) == ms(due)


@pytest.mark.parametrize("months", ["*", "2,12"])
def test_repeated_hour_right_after_the_last_slot_of_a_sparse_job_is_not_jumped_over(months: str) -> None:
    """Clocks went back from midnight to 23:00 of the 17th, when the calendar's next slot was a month or more ahead."""
    zone = "America/Sao_Paulo"
    before_midnight = datetime(2018, 2, 17, 23, 30, tzinfo=ZoneInfo(zone))
    due = recurrence(f"*/30 * 17 {months} *", zone).next_after(ms(before_midnight))
    assert due == ms(before_midnight) + 30 * 60 * 1000


def test_next_is_strictly_later_to_the_millisecond() -> None:
    """A slot is not found again from itself, and is found from a millisecond before it."""
    daily = recurrence("0 5 * * *", "UTC")
    five = ms(datetime(2026, 6, 1, 5, tzinfo=UTC))
    assert daily.next_after(five - 1) == five
    assert daily.next_after(five) == five + DAY_S * 1000
    assert daily.next_after(five + 1) == five + DAY_S * 1000


@pytest.mark.parametrize("hour", ["*", "5"])
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/New_York"])
def test_nothing_is_due_after_the_end_of_the_calendar(hour: str, zone: str) -> None:
    """No overflow and no endless search at the far end."""
    yearly = recurrence(f"59 {hour} 30 12 *", zone)
    assert yearly.next_after(END_MS - 3 * DAY_S * 1000) is not None
    assert yearly.next_after(END_MS - 1) is None
    assert yearly.next_after(END_MS) is None
    assert yearly.next_after(10 * END_MS) is None


# An oracle that follows the rule as it is written, by looking at the clocks every minute for four days.


@cache
def watched(zone: str, day: str) -> list[tuple[datetime, datetime]]:
    """Return each minute from two days before a day to two days after it, with what the clocks read then."""
    start = datetime.fromisoformat(day).replace(tzinfo=UTC) - timedelta(days=2)
    instants = [start + timedelta(minutes=minute) for minute in range(4 * 24 * 60)]
    return [(at, at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)) for at in instants]


def names(crontab: Crontab, reading: datetime) -> bool:
    return (
        reading.minute in crontab.minutes
        and reading.hour in crontab.hours
        and reading.day in crontab.days_of_month
        and reading.month in crontab.months
        and reading.isoweekday() % 7 in crontab.days_of_week
    )


def due_by_the_letter(crontab: Crontab, minutes: list[tuple[datetime, datetime]]) -> list[datetime]:
    if crontab.covers_every_hour:
        return [at for at, reading in minutes if names(crontab, reading)]
    seen: set[datetime] = set()
    found: set[datetime] = set()
    previous = minutes[0][1]
    for at, reading in minutes:
        left_out = (reading - previous) // timedelta(minutes=1)
        skipped = [previous + timedelta(minutes=minute) for minute in range(1, left_out)]
        if any(names(crontab, slot) for slot in skipped if slot not in seen):
            found.add(at)
        if reading not in seen and names(crontab, reading):
            found.add(at)
        seen.add(reading)
        previous = reading
    return sorted(found)


CRONTABS = st.builds(
    Crontab,
    minutes=st.sampled_from([(0,), (30,), (1, 59), (0, 20, 40), (15, 45), tuple(range(60))]),
    hours=st.sampled_from([tuple(range(24))] * 3 + [tuple(range(23))])
    | st.sets(st.sampled_from([0, 1, 2, 3, 4, 12, 22, 23]), min_size=1).map(lambda hours: tuple(sorted(hours))),
    days_of_week=st.sampled_from([tuple(range(7))] * 3 + [(0,), (1, 3, 5), (6,)]),
    days_of_month=st.sampled_from([tuple(range(1, 32))] * 3 + [(1, 15, 29), (8, 25, 30)]),
    months=st.just(tuple(range(1, 13))),
)


@pytest.mark.parametrize(("zone", "day"), NIGHTS)
@settings(max_examples=8, deadline=None)
@given(crontab=CRONTABS, waited=st.integers(0, 48 * 60))
def test_due_instants_are_those_of_the_rule_by_the_letter(zone: str, day: str, crontab: Crontab, waited: int) -> None:
    """On nights of every kind, for crontabs of every kind, from any moment on."""
    minutes = watched(zone, day)
    start, end = minutes[0][0] + timedelta(days=1, minutes=waited), minutes[-1][0]
    expected = [at for at in due_by_the_letter(crontab, minutes) if start <= at < end]
    assert due_between(CrontabRecurrence(crontab=crontab, zone=ZoneInfo(zone)), start, end) == expected


@pytest.mark.parametrize("now", ["02:00:00", "02:10:30", "02:30:00", "02:59:59"])
def test_wall_clock_job_planned_in_the_repeated_hour_has_had_its_slots_of_that_hour(now: str) -> None:
    """Created in the second pass through 02:00 to 03:00: its 02:30 is tomorrow's."""
    zone = ZoneInfo("Europe/Berlin")
    second_pass = datetime.fromisoformat(f"2026-10-25 {now}").replace(tzinfo=zone, fold=1)
    due = recurrence("30 2,3 * * *", "Europe/Berlin").next_after(ms(second_pass))
    assert due == ms(datetime(2026, 10, 25, 3, 30, tzinfo=zone))
