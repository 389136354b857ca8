"""When crontabs come due on the clocks of a zone, every kind of clock change included."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from django_leased_cron.core.crontab import DAY_S
from django_leased_cron.core.recurrence import END_MS, CrontabRecurrence
from tests.sweep.compare import build_recurrence, due_between

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def recurrence(fields: str, zone: str) -> CrontabRecurrence:
    return build_recurrence(fields, ZoneInfo(zone))


def due_instants(recurrence: CrontabRecurrence, start: datetime, end: datetime) -> list[datetime]:
    """Return the due instants from ``start`` up to before ``end``."""
    found = due_between(recurrence, int(start.timestamp()), int(end.timestamp()))
    return [datetime.fromtimestamp(at, UTC) for at in found]


def ms(at: datetime) -> int:
    return (at - EPOCH) // timedelta(milliseconds=1)


def on(day: str, zone: str, *, days: int = 0) -> datetime:
    """Return the first moment of a local day, ``days`` later."""
    return (datetime.fromisoformat(day) + timedelta(days=days)).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def local_times(fields: str, zone: str, day: str) -> list[str]:
    """Return what the clocks read, with their offset, whenever the job fires on a local day."""
    found = due_instants(recurrence(fields, zone), on(day, zone), on(day, zone, days=1))
    return [f"{at.astimezone(ZoneInfo(zone)):%H:%M%z}" for at in found]


def test_quarter_hours_go_on_through_the_repeated_hour() -> None:
    """Every 15 real minutes of a day of 25 hours: no hole of 75 minutes."""
    found = due_instants(
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
    found = due_instants(recurrence("0 9 * * *", zone), on("2011-12-29", zone), on("2012-01-01", zone))
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


@pytest.mark.parametrize("now", ["02:00:00", "02:10:30", "02:30:00", "02:59:59"])
def test_wall_clock_job_planned_in_the_repeated_hour_has_had_its_slots_of_that_hour(now: str) -> None:
    """Created in the second pass through 02:00 to 03:00: its 02:30 is tomorrow's."""
    zone = ZoneInfo("Europe/Berlin")
    second_pass = datetime.fromisoformat(f"2026-10-25 {now}").replace(tzinfo=zone, fold=1)
    due = recurrence("30 2,3 * * *", "Europe/Berlin").next_after(ms(second_pass))
    assert due == ms(datetime(2026, 10, 25, 3, 30, tzinfo=zone))
