"""What the rows of a job say, when it comes due first and next, and which rows are refused."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest

from django_leased_cron.core.planning_inputs import COLUMNS, PlanningInputs
from django_leased_cron.core.recurrence import END_MS, ClockedRecurrence, CrontabRecurrence, IntervalRecurrence
from django_leased_cron.core.schedule import JobSchedule, first_due, has_same_timetable, next_due, parse_schedule
from django_leased_cron.exceptions import MalformedJobError

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

EVERY_MINUTE = {"interval_id": "1", "interval_every": "1", "interval_period": "minutes"}
DAILY_AT_FIVE = {
    "crontab_id": "2",
    "crontab_minute": "0",
    "crontab_hour": "5",
    "crontab_day_of_week": "*",
    "crontab_day_of_month": "*",
    "crontab_month_of_year": "*",
    "crontab_timezone": "UTC",
}
CLOCKED = {"clocked_id": "3", "clocked_time": "2026-06-01 12:00:00"}
SOLAR = {"solar_id": "4", "solar_event": "sunset", "solar_latitude": "40.7", "solar_longitude": "-74.0"}


def parse(columns: dict[str, str], *, storage_zone: tzinfo = UTC, **changes: str) -> JobSchedule:
    values = {"one_off": "0"} | columns | changes
    return parse_schedule(PlanningInputs(tuple(values.get(name, "") for name in COLUMNS)), storage_zone=storage_zone)


def ms(text: str) -> int:
    """Read an instant, in UTC where it names no zone."""
    at = datetime.fromisoformat(text)
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


# What the rows say.


@pytest.mark.parametrize(
    ("every", "period", "every_ms"),
    [
        ("2", "days", 2 * DAY),
        ("3", "hours", 3 * HOUR),
        ("90", "minutes", 90 * MINUTE),
        ("1", "seconds", SECOND),
        ("1500000", "microseconds", 1500),
        ("36000", "days", 36_000 * DAY),
    ],
)
def test_interval_is_read_in_every_period(every: str, period: str, every_ms: int) -> None:
    """Microseconds too, where they come to whole milliseconds and a second or more."""
    schedule = parse(EVERY_MINUTE, interval_every=every, interval_period=period)
    assert schedule.recurrence == IntervalRecurrence(every_ms=every_ms)


def test_crontab_is_read_in_its_own_zone() -> None:
    """The zone of the row counts, not the one instants are stored in."""
    schedule = parse(DAILY_AT_FIVE, crontab_timezone="Asia/Kolkata", storage_zone=ZoneInfo("Asia/Shanghai"))
    assert isinstance(schedule.recurrence, CrontabRecurrence)
    assert schedule.recurrence.zone == ZoneInfo("Asia/Kolkata")
    assert first_due(schedule, now_ms=ms("2026-06-01 00:00:00"), anchor_ms=None) == ms("2026-06-01 23:30:00")


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-06-01 12:00:00", "2026-06-01 12:00:00+08:00"),
        ("2026-06-01 12:00:00.5", "2026-06-01 12:00:00.500+08:00"),
        ("2026-06-01 12:00:00.123456", "2026-06-01 12:00:00.123+08:00"),
        ("2026-06-01T12:00:00", "2026-06-01 12:00:00+08:00"),
        ("2026-06-01 12:00:00+00:00", "2026-06-01 12:00:00+00:00"),
        ("2026-06-01 12:00:00+05:30", "2026-06-01 06:30:00+00:00"),
        ("2026-06-01T12:00:00Z", "2026-06-01 12:00:00+00:00"),
    ],
)
def test_instants_are_read_in_the_storage_zone(text: str, at: str) -> None:
    """A project without USE_TZ stores local time: start, expiry and clocked time are right to the millisecond."""
    schedule = parse(CLOCKED, storage_zone=ZoneInfo("Asia/Shanghai"), clocked_time=text, start_time=text, expires=text)
    assert schedule.recurrence == ClockedRecurrence(at_ms=ms(at))
    assert schedule.start_at_ms == schedule.expires_at_ms == ms(at)


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "Pacific/Apia", "Antarctica/Troll", "America/New_York", "UTC"])
@pytest.mark.parametrize("text", ["0001-01-01 00:00:00", "1969-12-31 23:59:59.999999", "9999-12-31 23:59:59.999999"])
def test_instant_at_the_ends_of_the_calendar_is_read(zone: str, text: str) -> None:
    """People write the first or last date there is to say "always" or "never"."""
    schedule = parse(EVERY_MINUTE, storage_zone=ZoneInfo(zone), start_time=text, expires=text)
    assert schedule.start_at_ms == schedule.expires_at_ms
    assert schedule.start_at_ms is not None
    assert abs(schedule.start_at_ms - (ms(text[:19]) // SECOND) * SECOND) < DAY


@pytest.mark.parametrize(("no", "yes"), [("0", "1"), ("f", "t"), ("false", "true"), ("False", "True")])
def test_one_off_is_read_from_every_database(no: str, yes: str) -> None:
    """Each database writes a boolean in its own way."""
    assert not parse(EVERY_MINUTE, one_off=no).one_off
    assert parse(EVERY_MINUTE, one_off=yes).one_off


@pytest.mark.parametrize(
    ("columns", "changes", "field", "words"),
    [
        ({}, {}, "schedule", "choose exactly one"),
        (EVERY_MINUTE | DAILY_AT_FIVE, {}, "schedule", "choose exactly one"),
        (SOLAR, {}, "solar_id", r"pip install 'django-leased-cron\[solar\]'"),
        ({"interval_id": "7"}, {}, "interval_id", "no longer exists"),
        ({"crontab_id": "7"}, {}, "crontab_id", "no longer exists"),
        ({"clocked_id": "7"}, {}, "clocked_id", "no longer exists"),
        ({"solar_id": "7"}, {}, "solar_id", "no longer exists"),
        (EVERY_MINUTE, {"interval_every": "0"}, "interval_every", "1 second is the shortest"),
        (EVERY_MINUTE, {"interval_every": "-5"}, "interval_every", "1 second is the shortest"),
        (EVERY_MINUTE, {"interval_period": "microseconds"}, "interval_every", "every 1 microseconds is too often"),
        (
            EVERY_MINUTE,
            {"interval_every": "999999", "interval_period": "microseconds"},
            "interval_every",
            "1 second is the shortest",
        ),
        (
            EVERY_MINUTE,
            {"interval_every": "1000001", "interval_period": "microseconds"},
            "interval_every",
            "whole number of milliseconds",
        ),
        (EVERY_MINUTE, {"interval_every": "3000000", "interval_period": "days"}, "interval_every", "calendar"),
        (EVERY_MINUTE, {"interval_every": "ten"}, "interval_every", "whole number"),
        (EVERY_MINUTE, {"interval_every": ""}, "interval_every", "whole number"),
        (EVERY_MINUTE, {"interval_period": "weeks"}, "interval_period", "must be one of days"),
        (DAILY_AT_FIVE, {"crontab_minute": "*/"}, "crontab_minute", "step"),
        (DAILY_AT_FIVE, {"crontab_minute": ""}, "crontab_minute", "empty"),
        (DAILY_AT_FIVE, {"crontab_hour": "abc"}, "crontab_hour", "0 to 23"),
        (DAILY_AT_FIVE, {"crontab_hour": "25"}, "crontab_hour", "0 to 23"),
        (
            DAILY_AT_FIVE,
            {"crontab_day_of_month": "30", "crontab_month_of_year": "2"},
            "crontab_day_of_month",
            "never run",
        ),
        (CLOCKED, {"clocked_time": "tomorrow"}, "clocked_time", "date and time"),
        (CLOCKED, {"start_time": "0000-00-00 00:00:00"}, "start_time", "date and time"),
        (CLOCKED, {"expires": "infinity"}, "expires", "date and time"),
        (CLOCKED, {"one_off": "maybe"}, "one_off", "true or false"),
    ],
)
def test_bad_row_is_refused(columns: dict[str, str], changes: dict[str, str], field: str, words: str) -> None:
    """Whatever cannot be planned is refused with its column and the reason, never guessed at."""
    with pytest.raises(MalformedJobError, match=words) as caught:
        parse(columns | changes)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "key", ["", "Nope/Zone", "America", "../etc/passwd", "/etc/localtime", "zone.tab", "\0", "a" * 500]
)
def test_bad_time_zone_is_refused(key: str) -> None:
    """Unknown names, folders of zones and paths that lead elsewhere."""
    with pytest.raises(MalformedJobError, match="no such time zone") as caught:
        parse(DAILY_AT_FIVE, crontab_timezone=key)
    assert caught.value.field == "crontab_timezone"


def test_same_timetable_ignores_what_leaves_the_next_slot_alone() -> None:
    """Expiry and one-off may change without planning anew; schedule and start may not."""
    schedule = parse(DAILY_AT_FIVE)
    assert has_same_timetable(schedule, parse(DAILY_AT_FIVE, expires="2026-06-01 12:00:00", one_off="1"))
    assert has_same_timetable(schedule, parse(DAILY_AT_FIVE, crontab_id="9", crontab_day_of_week="0-6"))
    assert not has_same_timetable(schedule, parse(DAILY_AT_FIVE, start_time="2026-06-01 12:00:00"))
    assert not has_same_timetable(schedule, parse(DAILY_AT_FIVE, crontab_hour="6"))
    assert not has_same_timetable(schedule, parse(DAILY_AT_FIVE, crontab_timezone="Europe/London"))


# When it comes due.


@pytest.mark.parametrize(
    ("schedule", "due"),
    [
        (parse(EVERY_MINUTE), "2026-06-01 12:01:00"),
        (parse(DAILY_AT_FIVE), "2026-06-02 05:00:00"),
        (parse(CLOCKED, clocked_time="2026-06-01 12:00:01"), "2026-06-01 12:00:01"),
    ],
)
def test_job_planned_anew_never_fires_for_the_past(schedule: JobSchedule, due: str) -> None:
    """Created, enabled or re-scheduled at noon: the next regular slot."""
    assert first_due(schedule, now_ms=ms("2026-06-01 12:00:00"), anchor_ms=None) == ms(due)


def test_crontab_moved_while_its_old_slot_is_ahead_fires_at_the_new_one_only() -> None:
    """Moved at 12:20 from 13:30 to 14:30."""
    schedule = parse(DAILY_AT_FIVE, crontab_minute="30", crontab_hour="14")
    assert first_due(schedule, now_ms=ms("2026-06-01 12:20:00"), anchor_ms=None) == ms("2026-06-01 14:30:00")


def test_interval_keeps_its_cadence_from_its_last_run() -> None:
    """Every day, last run at 09:00; seen first at 21:00: tomorrow at 09:00, not a day from now."""
    schedule = parse(EVERY_MINUTE, interval_every="1", interval_period="days")
    first = first_due(schedule, now_ms=ms("2026-06-01 21:00:00"), anchor_ms=ms("2026-06-01 09:00:00"))
    assert first == ms("2026-06-02 09:00:00")


def test_interval_does_not_wait_for_a_last_run_in_the_future() -> None:
    """A row written by a host whose clock was a year ahead."""
    schedule = parse(EVERY_MINUTE)
    first = first_due(schedule, now_ms=ms("2026-06-01 12:00:00"), anchor_ms=ms("2027-06-01 12:00:00"))
    assert first == ms("2026-06-01 12:01:00")


@pytest.mark.parametrize(
    ("now", "due"),
    [
        ("2026-05-01 00:00:00", "2026-06-01 12:00:10"),
        ("2026-06-01 12:00:10", "2026-06-01 12:01:10"),
        ("2026-06-01 12:05:00", "2026-06-01 12:05:10"),
    ],
)
def test_interval_counts_from_its_start_time(now: str, due: str) -> None:
    """The start is a slot itself, and the anchor for good: the last run does not move it."""
    schedule = parse(EVERY_MINUTE, start_time="2026-06-01 12:00:10")
    assert first_due(schedule, now_ms=ms(now), anchor_ms=ms("2026-04-30 23:59:30")) == ms(due)


@pytest.mark.parametrize(
    ("start", "due"),
    [
        ("2026-07-01 05:00:00", "2026-07-01 05:00:00"),
        ("2026-07-01 05:00:00.001", "2026-07-02 05:00:00"),
        ("2026-05-01 00:00:00", "2026-06-02 05:00:00"),
    ],
)
def test_crontab_has_no_slot_before_its_start_time(start: str, due: str) -> None:
    """The first slot at or after the start, and later than now."""
    schedule = parse(DAILY_AT_FIVE, start_time=start)
    assert first_due(schedule, now_ms=ms("2026-06-01 12:00:00"), anchor_ms=None) == ms(due)


def test_clocked_job_fires_once_at_its_instant() -> None:
    """Not for the past, not again, and not before its start time."""
    schedule = parse(CLOCKED)
    at = ms("2026-06-01 12:00:00")
    assert first_due(schedule, now_ms=at - 1, anchor_ms=None) == at
    assert first_due(schedule, now_ms=at, anchor_ms=None) is None
    assert next_due(schedule, after_ms=at, base_ms=at) is None
    later = parse(CLOCKED, start_time="2026-06-01 13:00:00")
    assert first_due(later, now_ms=at, anchor_ms=None) == ms("2026-06-01 13:00:00")
    assert first_due(later, now_ms=ms("2026-06-01 13:00:00"), anchor_ms=None) is None


@pytest.mark.parametrize(
    ("zone", "instant"),
    [
        ("Asia/Kolkata", "2026-06-01 06:30:00"),
        ("Pacific/Apia", "2026-05-31 23:00:00"),
        ("Antarctica/Troll", "2026-06-01 10:00:00"),
    ],
)
def test_clocked_time_stored_in_an_odd_zone_is_its_instant(zone: str, instant: str) -> None:
    """No hour of the day is dropped, whatever the offset."""
    schedule = parse(CLOCKED, storage_zone=ZoneInfo(zone))
    assert first_due(schedule, now_ms=ms(instant) - DAY, anchor_ms=None) == ms(instant)


@pytest.mark.parametrize("columns", [EVERY_MINUTE, DAILY_AT_FIVE, CLOCKED | {"clocked_time": "2026-06-02 05:00:00"}])
def test_nothing_is_due_at_or_after_the_expiry(columns: dict[str, str]) -> None:
    """The slot right at the expiry is none; a millisecond earlier it is one."""
    before = ms("2026-06-02 04:59:00")
    at_slot = parse(columns, expires="2026-06-02 05:00:00")
    after_slot = parse(columns, expires="2026-06-02 05:00:00.001")
    assert next_due(at_slot, after_ms=before, base_ms=before) is None
    assert next_due(after_slot, after_ms=before, base_ms=before) == ms("2026-06-02 05:00:00")


def test_interval_ends_with_the_calendar() -> None:
    """A slot beyond the year 9998 is none, as it could not be shown to anybody."""
    schedule = parse(EVERY_MINUTE, interval_every="36000", interval_period="days")
    assert next_due(schedule, after_ms=END_MS - DAY, base_ms=END_MS - DAY) is None
    assert first_due(parse(DAILY_AT_FIVE, start_time="9999-12-31 23:59:59"), now_ms=0, anchor_ms=None) is None
