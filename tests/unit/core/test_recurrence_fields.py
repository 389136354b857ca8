"""A crontab field means what it means to Celery, and is refused when Celery refuses it."""

from __future__ import annotations

from datetime import date

import pytest
from celery.schedules import ParseException, crontab

from django_leased_cron.core.crontab import DAY_S, Crontab, parse_crontab
from django_leased_cron.exceptions import MalformedJobError

EPOCH = date(1970, 1, 1)
NUMBERS = {
    "minute": "minutes",
    "hour": "hours",
    "day_of_week": "days_of_week",
    "day_of_month": "days_of_month",
    "month_of_year": "months",
}
FIELDS = [
    *("*", "0", "7", "12", "24", "25", "31", "59", "60", "-1", "+3", "1_0", "00007"),
    *("*/1", "*/13", "*/24", "*/40", "*/0", "*/", "*/x", "*/-2", "*/99", "**", "*\n", "* ", " *", "*/5 and so on"),
    *("0,15,30,45", "0, 15, 30, 45", "1,,2", ",", "", " ", "1,*", "*/2,*/3"),
    *("1-5", "10-2", "22-2", "2-59/5", "2-12/2", "5-1/2", "1-5/", "1-5/0", "1-5 /2", "1 - 5", "1-", "-5", "1-2-3"),
    *("6-7", "5-7", "7-1", "0-6", "0-7", "1-70", "x-5", "5-x"),
    *("sun", "mon-fri", "Monday", "SAT,sun", "fri-mon", "sat-sun", "mondays", "mo", "january", "jan-mar", "dec-feb/2"),
    *("mar", "abc", "L", "?", "1#2", "@daily", "٣", "*/٣", "²", "1.5", "1e1", "9" * 5000, "-0"),
]


def every(**fields: str) -> Crontab:
    return parse_crontab(**dict.fromkeys(NUMBERS, "*") | fields)


def celery_reads(name: str, text: str) -> list[int] | None:
    try:
        return sorted(getattr(crontab(**{name: text}), name))
    except (ParseException, ValueError):
        return None


def we_read(name: str, text: str) -> list[int] | None:
    try:
        return list(getattr(every(**{name: text}), NUMBERS[name]))
    except MalformedJobError as error:
        return None if (error.field, error.value) == (f"crontab_{name}", text) else [-1]


@pytest.mark.parametrize("name", NUMBERS)
def test_field_is_read_as_celery_reads_it(name: str) -> None:
    """The forms met in the wild, and slips of every kind."""
    assert {text: we_read(name, text) for text in FIELDS} == {text: celery_reads(name, text) for text in FIELDS}


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("hour", "25", "'25' is no number or name in range; numbers here are 0 to 23"),
        ("minute", "*/", "'*/' needs a step of 1 or more"),
        ("minute", "", "a part is empty: write '*'"),
        ("day_of_week", "7", "numbers here are 0 to 6, Sunday is 0"),
    ],
)
def test_refusal_says_what_would_be_right(field: str, text: str, words: str) -> None:
    """The message names the column, the value and the remedy."""
    with pytest.raises(MalformedJobError) as caught:
        every(**{field: text})
    assert str(caught.value).startswith(f"crontab_{field} {text!r}: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(("days", "months"), [("30", "2"), ("31", "feb,apr,jun,sep,nov"), ("30-31", "2")])
def test_date_that_no_year_has_is_refused(days: str, months: str) -> None:
    """30 February would never run."""
    with pytest.raises(MalformedJobError, match="never run"):
        every(day_of_month=days, month_of_year=months)


def test_date_must_satisfy_all_three_date_fields() -> None:
    """Day of month AND day of week: Friday the thirteenth is rare."""
    crontab = every(minute="0", hour="0", day_of_month="13", day_of_week="fri")
    assert dates_from(crontab, date(2026, 1, 1), 4) == ["2026-02-13", "2026-03-13", "2026-11-13", "2027-08-13"]


def test_rarest_date_is_found_across_a_century_without_a_leap_day() -> None:
    """29 February on a Monday: 28 years apart, 40 where 2100 lies between."""
    crontab = every(minute="0", hour="0", day_of_month="29", month_of_year="2", day_of_week="mon")
    assert dates_from(crontab, date(2026, 1, 1), 3) == ["2044-02-29", "2072-02-29", "2112-02-29"]


def test_calendar_ends() -> None:
    """A date that does not come again before the calendar ends is none, not an error."""
    crontab = every(minute="0", hour="0", day_of_month="29", month_of_year="2")
    assert dates_from(crontab, date(9990, 1, 1), 4) == ["9992-02-29", "9996-02-29", None, None]


def dates_from(crontab: Crontab, start: date, count: int) -> list[str | None]:
    found: list[str | None] = []
    reading = (start - EPOCH).days * DAY_S
    for _ in range(count):
        slot = crontab.first_slot(reading)
        found.append(None if slot is None else date.fromordinal(EPOCH.toordinal() + slot // DAY_S).isoformat())
        reading = reading if slot is None else slot + 1
    return found
