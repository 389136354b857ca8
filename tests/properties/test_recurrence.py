"""What holds of the due times of every crontab and interval, on every zone's clocks, from every moment on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from django_leased_cron.core.crontab import parse_crontab
from django_leased_cron.core.recurrence import CrontabRecurrence, IntervalRecurrence
from django_leased_cron.exceptions import MalformedJobError
from tests.properties.fields import FIELDS
from tests.sweep.compare import build_recurrence

HOUR = 3_600_000
DAY = 24 * HOUR
YEAR = 366 * DAY
LONGEST_WAIT = 41 * YEAR
START, END = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp() * 1000) for year in (1980, 2090))

ZONES = st.sampled_from(
    [
        "Europe/Berlin",
        "Europe/Dublin",
        "America/New_York",
        "America/Havana",
        "America/St_Johns",
        "Australia/Lord_Howe",
        "Antarctica/Troll",
        "Africa/Casablanca",
        "Pacific/Apia",
        "Asia/Kathmandu",
        "UTC",
    ]
).map(ZoneInfo)
RECURRENCES = st.builds(build_recurrence, FIELDS, ZONES)


def turns_of(year: int, zone: ZoneInfo) -> list[int]:
    """Return an instant of each day of a year after which the zone's offset is another."""
    days = [datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=number) for number in range(366)]
    offsets = [day.astimezone(zone).utcoffset() for day in days]
    return [
        int(day.timestamp() * 1000) for day, one, other in zip(days, offsets, offsets[1:], strict=False) if one != other
    ]


@st.composite
def moments(draw: st.DrawFn, zone: ZoneInfo) -> int:
    """Any millisecond, and more often one within two days of a change of the zone's clocks."""
    anywhere = draw(st.integers(START, END))
    turns = turns_of(draw(st.integers(1980, 2089)), zone)
    if not turns or draw(st.integers(0, 3)) == 0:
        return anywhere
    return draw(st.sampled_from(turns)) + draw(st.integers(-DAY, 2 * DAY))


def next_after(recurrence: CrontabRecurrence, after: int) -> int:
    due = recurrence.next_after(after)
    assert due is not None
    return due


@given(data=st.data(), recurrence=RECURRENCES)
def test_next_is_strictly_later_and_is_found_again_from_just_before(
    data: st.DataObject, recurrence: CrontabRecurrence
) -> None:
    """What is found does not depend on where the search begins."""
    after = data.draw(moments(recurrence.zone))
    due = next_after(recurrence, after)
    assert due > after
    assert next_after(recurrence, due - 1) == due


@given(data=st.data(), recurrence=RECURRENCES, wait=st.integers(0, 2 * DAY) | st.integers(0, YEAR))
def test_next_never_comes_earlier_when_asked_later(
    data: st.DataObject, recurrence: CrontabRecurrence, wait: int
) -> None:
    """Monotone; and the same one, as long as it is still ahead."""
    after = data.draw(moments(recurrence.zone))
    due, later_due = next_after(recurrence, after), next_after(recurrence, after + wait)
    assert later_due >= due
    assert (later_due == due) == (after + wait < due)


@given(data=st.data(), recurrence=RECURRENCES, steps=st.integers(1, 50), fraction=st.floats(0, 1, exclude_max=True))
def test_skipping_steps_equals_stepping(
    data: st.DataObject, recurrence: CrontabRecurrence, steps: int, fraction: float
) -> None:
    """A scheduler that was away finds what one that walked through finds: from anywhere between two due times."""
    previous = cursor = data.draw(moments(recurrence.zone))
    for _ in range(steps):
        previous, cursor = cursor, next_after(recurrence, cursor)
    assert next_after(recurrence, previous + int((cursor - previous) * fraction)) == cursor


@given(
    every=st.integers(1000, 40 * DAY),
    base=st.integers(START, END),
    after=st.integers(START, END),
    steps=st.integers(1, 50),
)
def test_skipping_steps_of_an_interval_equals_stepping(every: int, base: int, after: int, steps: int) -> None:
    """Whichever slot of the cadence it is counted from."""
    recurrence = IntervalRecurrence(every_ms=every)
    cursor = after
    for _ in range(steps):
        cursor = recurrence.next_after(cursor, base_ms=base)
    first = recurrence.next_after(after, base_ms=base)
    assert cursor == first + (steps - 1) * every == recurrence.next_after(cursor - 1, base_ms=first)


def numbers(first: int, last: int) -> st.SearchStrategy[str]:
    return st.sets(st.integers(first, last), min_size=1, max_size=3).map(lambda found: ",".join(map(str, found)))


@given(
    data=st.data(),
    day_of_month=numbers(1, 31) | st.sampled_from(["29", "30", "31"]),
    month=numbers(1, 12) | st.just("2"),
    day_of_week=numbers(0, 6) | st.just("*"),
    zone=ZONES,
)
def test_crontab_is_refused_or_comes_due(
    data: st.DataObject, day_of_month: str, month: str, day_of_week: str, zone: ZoneInfo
) -> None:
    """However rare its date, within the longest wait the calendar knows; none is searched for without end."""
    hour = data.draw(st.sampled_from(["*", "2", "23"]))
    try:
        crontab = parse_crontab(
            minute="59", hour=hour, day_of_week=day_of_week, day_of_month=day_of_month, month_of_year=month
        )
    except MalformedJobError:
        return
    after = data.draw(moments(zone))
    due = next_after(CrontabRecurrence(crontab=crontab, zone=zone), after)
    assert after < due < after + LONGEST_WAIT
