"""The five fields of a crontab, read as Celery reads them, and the local days and times they name.

A field is a list of parts; a part is ``*``, a number, a name (``mon``, ``january``) or a range, which may wrap around
(``22-2``), the last one and ``*`` with a step. A date must satisfy day of month *and* day of week *and* month.
Whatever ``celery.schedules.crontab`` accepts is accepted with the same meaning, slips included; whatever it refuses is
refused: 7 is no day of the week, Sunday is 0.

Local time is an integer here: the *reading* of a zone's clocks, in seconds since their 1970-01-01 00:00:00. What a
reading is in real time is the business of :mod:`~django_leased_cron.core.recurrence`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, date
from typing import Final

from django_leased_cron.exceptions import MalformedJobError

DAY_S: Final = 86_400
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
# The calendar names a day this often at least: 29 February on a given weekday, when 2100 lies between.
_LONGEST_WAIT_YEARS: Final = 40

# Celery matches these from the start of a part and ignores what follows: "1-5 /2" is 1-5.
_STEPPED_RANGE = re.compile(r"(\w+?)-(\w+)/(\w+)?")
_RANGE = re.compile(r"(\w+?)-(\w+)")
_STEPPED_STAR = re.compile(r"\*/(\w+)?")
_STAR = re.compile(r"\*$")

# Names count in every field, months first, by their first three letters: "mar" is 3 as a day of the week, too.
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NUMBER_BY_NAME: Final = {name: number for number, name in enumerate(_WEEKDAYS)} | {
    name: number for number, name in enumerate(_MONTHS, start=1)
}
_LONGEST_MONTHS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crontab:
    """The numbers that each field names, in ascending order; ``days_of_week`` counts from Sunday = 0."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days_of_week: tuple[int, ...]
    days_of_month: tuple[int, ...]
    months: tuple[int, ...]

    @property
    def covers_every_hour(self) -> bool:
        return len(self.hours) == 24

    def first_slot(self, reading: int) -> int | None:
        """Return the first slot at or after a local reading; ``None`` where the calendar ends (year 9999)."""
        days, second_of_day = divmod(reading, DAY_S)
        today = date.fromordinal(_EPOCH_ORDINAL + days)
        if self._names(today):
            time = self._first_time(second_of_day)
            if time is not None:
                return days * DAY_S + time
        day = self._first_date_after(today)
        if day is None:
            return None
        return (day.toordinal() - _EPOCH_ORDINAL) * DAY_S + self.hours[0] * 3600 + self.minutes[0] * 60

    def _names(self, day: date) -> bool:
        return day.month in self.months and day.day in self.days_of_month and day.isoweekday() % 7 in self.days_of_week

    def _first_time(self, second_of_day: int) -> int | None:
        hour, minute = divmod(-(-second_of_day // 60), 60)
        index = bisect_left(self.hours, hour)
        if index < len(self.hours) and self.hours[index] == hour and minute <= self.minutes[-1]:
            return hour * 3600 + self.minutes[bisect_left(self.minutes, minute)] * 60
        index = bisect_left(self.hours, hour + 1)
        return self.hours[index] * 3600 + self.minutes[0] * 60 if index < len(self.hours) else None

    def _first_date_after(self, today: date) -> date | None:
        for year in range(today.year, min(today.year + _LONGEST_WAIT_YEARS + 1, MAXYEAR)):
            for month in self.months:
                if (year, month) < (today.year, today.month):
                    continue
                for day_of_month in self.days_of_month:
                    try:
                        day = date(year, month, day_of_month)
                    except ValueError:  # the month is shorter
                        break
                    if day > today and day.isoweekday() % 7 in self.days_of_week:
                        return day
        return None


def parse_crontab(*, minute: str, hour: str, day_of_week: str, day_of_month: str, month_of_year: str) -> Crontab:
    """Parse the five fields.

    Raises:
        MalformedJobError: Celery would refuse a field, or no year has such a date (30 February).
    """
    crontab = Crontab(
        minutes=_parse_field("crontab_minute", minute, lowest=0, highest=59),
        hours=_parse_field("crontab_hour", hour, lowest=0, highest=23),
        days_of_week=_parse_field("crontab_day_of_week", day_of_week, lowest=0, highest=6, remark=", Sunday is 0"),
        days_of_month=_parse_field("crontab_day_of_month", day_of_month, lowest=1, highest=31),
        months=_parse_field("crontab_month_of_year", month_of_year, lowest=1, highest=12),
    )
    if crontab.days_of_month[0] > max(_LONGEST_MONTHS[month - 1] for month in crontab.months):
        reason = f"no year has such a day in month_of_year {month_of_year!r}; the job would never run"
        raise MalformedJobError("crontab_day_of_month", day_of_month, reason)
    return crontab


def _parse_field(name: str, text: str, *, lowest: int, highest: int, remark: str = "") -> tuple[int, ...]:
    try:
        return tuple(sorted({n for part in text.split(",") for n in _expand(part, range(lowest, highest + 1))}))
    except ValueError as exc:
        raise MalformedJobError(name, text, f"{exc}; numbers here are {lowest} to {highest}{remark}") from exc


def _expand(part: str, all_numbers: range) -> Sequence[int]:
    if match := _STEPPED_RANGE.match(part):
        first, last, step = match.groups()
        return _expand_range(first, last, all_numbers)[:: _parse_step(part, step)]
    if match := _RANGE.match(part):
        return _expand_range(match[1], match[2], all_numbers)
    if match := _STEPPED_STAR.match(part):
        return all_numbers[:: _parse_step(part, match[1])]
    if _STAR.match(part):
        return all_numbers
    return [_parse_number(part, all_numbers)]


def _expand_range(first: str, last: str, all_numbers: range) -> Sequence[int]:
    start = all_numbers.index(_parse_number(first, all_numbers))
    end = all_numbers.index(_parse_number(last, all_numbers)) + 1
    return all_numbers[start:end] if start < end else [*all_numbers[start:], *all_numbers[:end]]


def _parse_step(part: str, step: str | None) -> int:
    number = _parse_int(step or "")
    if not number:
        message = f"{part!r} needs a step of 1 or more after the slash"
        raise ValueError(message)
    return number


def _parse_number(text: str, all_numbers: range) -> int:
    if not text:
        message = "a part is empty: write '*' for every one"
        raise ValueError(message)
    number = _parse_int(text)
    if number is None:
        number = _NUMBER_BY_NAME.get(text[:3].lower())
    if number is None or number not in all_numbers or text.startswith("-"):
        message = f"{text!r} is no number or name in range"
        raise ValueError(message)
    return number


def _parse_int(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
