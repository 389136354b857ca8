"""What becomes of due slots: after an outage, after the expiry, with jitter, in pieces."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from django_leased_cron.core.catch_up import Reckoning, Stretch
from django_leased_cron.core.jitter import jittered
from django_leased_cron.core.occurrence import CatchUp, SkipReason
from django_leased_cron.core.recurrence import ClockedRecurrence
from django_leased_cron.core.schedule import JobSchedule
from tests.unit.core.timetables import DAY, HOUR, MINUTE, MISSED_AFTER, NOON, SECOND, crontab, decide, interval, ms

POLICIES = list(CatchUp)


def skipped(first: int, last: int, slots: int, reason: SkipReason = SkipReason.CATCH_UP) -> Stretch:
    return Stretch(first_due_at_ms=first, last_due_at_ms=last, slots=slots, reason=reason)


@pytest.mark.parametrize("catch_up", POLICIES)
@pytest.mark.parametrize("late", [0, 1, MISSED_AFTER])
def test_slot_late_by_no_more_than_a_failover_fires_under_every_policy(catch_up: CatchUp, late: int) -> None:
    """Catch-up decides about missed slots only."""
    assert decide(crontab("0", "12"), due=NOON, now=NOON + late, catch_up=catch_up) == Reckoning(
        fires=(NOON,), skipped=(), next_due_at_ms=NOON + DAY
    )


def test_slot_late_by_more_than_a_failover_is_missed() -> None:
    """A millisecond more, and the policy decides."""
    assert decide(crontab("0", "12"), due=NOON, now=NOON + MISSED_AFTER + 1, catch_up=CatchUp.SKIP) == Reckoning(
        fires=(), skipped=(skipped(NOON, NOON, 1),), next_due_at_ms=NOON + DAY
    )


@pytest.mark.parametrize("catch_up", POLICIES)
def test_nothing_is_decided_about_a_slot_in_the_future(catch_up: CatchUp) -> None:
    """A slot a millisecond ahead stays the next one."""
    for schedule in (crontab("0", "12"), interval(MINUTE), JobSchedule(recurrence=ClockedRecurrence(at_ms=NOON))):
        assert decide(schedule, due=NOON, now=NOON - 1, catch_up=catch_up) == Reckoning(
            fires=(), skipped=(), next_due_at_ms=NOON
        )


def test_daily_job_missed_in_the_night_is_caught_up_once_in_the_morning() -> None:
    """Nothing ran from 04:00 to 08:30: one firing at the restart, then 05:00 the next day and no other time."""
    five = ms("2026-06-01 05:00:00")
    assert decide(crontab("0", "5"), due=five, now=ms("2026-06-01 08:30:00")) == Reckoning(
        fires=(five,), skipped=(), next_due_at_ms=five + DAY
    )


def test_latest_missed_slot_is_the_one_that_counts() -> None:
    """Slots at 12:00 and 12:45, restart at 12:50: 12:45 fires, 12:00 is accounted for."""
    assert decide(crontab("0,45", "*"), due=NOON, now=NOON + 50 * MINUTE) == Reckoning(
        fires=(NOON + 45 * MINUTE,), skipped=(skipped(NOON, NOON, 1),), next_due_at_ms=NOON + HOUR
    )


@pytest.mark.parametrize(
    ("catch_up", "fires", "stretches"),
    [
        (CatchUp.SKIP, [], [skipped(NOON, NOON + 4 * HOUR, 5)]),
        (CatchUp.ONCE, [4], [skipped(NOON, NOON + 3 * HOUR, 4)]),
        (CatchUp.ALL, [0, 1, 2, 3, 4], []),
    ],
)
@pytest.mark.parametrize("schedule", [crontab("0", "*"), interval(HOUR)])
def test_policy_decides_about_an_outage(
    schedule: JobSchedule, catch_up: CatchUp, fires: list[int], stretches: list[Stretch]
) -> None:
    """Five slots missed: none, the latest, or all of them."""
    assert decide(schedule, due=NOON, now=NOON + 4 * HOUR + 30 * MINUTE, catch_up=catch_up) == Reckoning(
        fires=tuple(NOON + hours * HOUR for hours in fires), skipped=tuple(stretches), next_due_at_ms=NOON + 5 * HOUR
    )


def test_missed_slots_do_not_fire_beside_a_later_one_that_was_not_missed() -> None:
    """Back after an hour, ten seconds after a slot: that one is the latest, and the catch-up of all before it."""
    assert decide(crontab("0,30", "*"), due=NOON, now=NOON + HOUR + 10 * SECOND) == Reckoning(
        fires=(NOON + HOUR,),
        skipped=(skipped(NOON, NOON + 30 * MINUTE, 2),),
        next_due_at_ms=NOON + HOUR + 30 * MINUTE,
    )


def test_every_slot_that_was_not_missed_fires() -> None:
    """A failover of 20 seconds costs a one-second job none of its firings, whatever the policy."""
    result = decide(interval(SECOND), due=NOON, now=NOON + 20 * SECOND, catch_up=CatchUp.SKIP)
    assert result.fires == tuple(range(NOON, NOON + 20 * SECOND + 1, SECOND))


@pytest.mark.parametrize("daily", [crontab("0", "12"), interval(DAY)])
@pytest.mark.parametrize("catch_up", POLICIES)
def test_slots_older_than_the_window_never_fire(daily: JobSchedule, catch_up: CatchUp) -> None:
    """Four slots and a window of one day: to the millisecond, whatever the policy."""
    result = decide(daily, due=NOON - 3 * DAY, now=NOON + 1, catch_up=catch_up)
    assert result.skipped[0] == skipped(NOON - 3 * DAY, NOON - DAY, 3, SkipReason.WINDOW)
    assert result.fires == (NOON,)
    result = decide(daily, due=NOON - 3 * DAY, now=NOON, catch_up=catch_up)
    assert result.skipped[0] == skipped(NOON - 3 * DAY, NOON - 2 * DAY, 2, SkipReason.WINDOW)
    assert result.fires == ((NOON - DAY, NOON) if catch_up is CatchUp.ALL else (NOON,))


@pytest.mark.parametrize("catch_up", POLICIES)
def test_latest_slot_does_not_fire_either_when_it_is_older_than_the_window(catch_up: CatchUp) -> None:
    """Weekly, five days late."""
    assert decide(interval(7 * DAY), due=NOON, now=NOON + 5 * DAY, catch_up=catch_up) == Reckoning(
        fires=(), skipped=(skipped(NOON, NOON, 1, SkipReason.WINDOW),), next_due_at_ms=NOON + 7 * DAY
    )


def test_window_shorter_than_a_failover_takes_nothing_that_was_not_missed() -> None:
    """The window is about missed slots."""
    assert decide(crontab("0", "12"), due=NOON, now=NOON + 30 * SECOND, window_ms=0).fires == (NOON,)
    assert len(decide(interval(SECOND), due=NOON, now=NOON + 30 * SECOND, window_ms=0).fires) == 31


def test_day_of_missed_one_second_slots_is_one_stretch() -> None:
    """86,400 slots, one row with a count."""
    now = NOON + DAY
    assert decide(interval(SECOND), due=NOON, now=now + MINUTE, catch_up=CatchUp.SKIP, window_ms=7 * DAY) == Reckoning(
        fires=tuple(range(now + 29 * SECOND, now + MINUTE + 1, SECOND)),
        skipped=(skipped(NOON, now + 28 * SECOND, 86_429),),
        next_due_at_ms=now + 61 * SECOND,
    )


def test_century_of_missed_slots_costs_no_more_than_a_minute_of_them() -> None:
    """Counted, not walked: a walk of a hundred slots is enough."""
    result = decide(interval(SECOND), due=NOON, now=NOON + 36_525 * DAY, walk_limit=100)
    assert result.next_due_at_ms == NOON + 36_525 * DAY + SECOND
    assert [(stretch.reason, stretch.slots) for stretch in result.skipped] == [
        (SkipReason.WINDOW, 36_524 * 86_400),
        (SkipReason.CATCH_UP, 86_400 - 31),  # those of the last 31.5 s were not missed
    ]


def test_no_more_fires_than_asked_for_and_the_rest_is_next() -> None:
    """The oldest first; the slot after the last one taken is next due."""
    result = decide(interval(HOUR), due=NOON, now=NOON + 10 * HOUR, catch_up=CatchUp.ALL, most=3)
    assert result == Reckoning(fires=(NOON, NOON + HOUR, NOON + 2 * HOUR), skipped=(), next_due_at_ms=NOON + 3 * HOUR)


def test_crontab_is_walked_in_pieces() -> None:
    """Slots that all fire are settled in several calls, with the same outcome."""
    schedule, now, due = crontab("*", "*"), NOON + 100 * MINUTE + 50 * SECOND, NOON
    fires, calls = 0, 0
    while due <= now:
        calls += 1
        result = decide(schedule, due=due, now=now, walk_limit=30, catch_up=CatchUp.ALL)
        assert result.skipped == ()
        fires += len(result.fires)
        assert result.next_due_at_ms is not None
        due = result.next_due_at_ms
    assert (calls, fires) == (4, 101)


@pytest.mark.parametrize("days", [3, 366])
def test_crontab_missed_for_long_is_counted_and_not_walked(days: int) -> None:
    """Some dozens of such jobs, walked, would keep every holder busy for longer than work may be owed."""
    now = NOON + days * 24 * HOUR + 50 * SECOND
    result = decide(crontab("*", "*"), due=NOON, now=now)
    assert sum(stretch.slots for stretch in result.skipped) == days * 1440
    assert result.fires == (NOON + days * 24 * HOUR,)
    assert result.walked < 50


@pytest.mark.parametrize(("catch_up", "slot"), [(CatchUp.ALL, 0), (CatchUp.ONCE, 4)])
@pytest.mark.parametrize("recurring", [crontab("0", "*", one_off=True), interval(HOUR, one_off=True)])
def test_one_off_is_done_with_its_first_fire(recurring: JobSchedule, catch_up: CatchUp, slot: int) -> None:
    """Later slots of it are neither fired nor recorded."""
    result = decide(recurring, due=NOON, now=NOON + 4 * HOUR + 30 * MINUTE, catch_up=catch_up)
    assert result.fires == (NOON + slot * HOUR,)
    assert result.next_due_at_ms is None
    assert sum(stretch.slots for stretch in result.skipped) == slot


def test_one_off_whose_slot_is_skipped_keeps_its_next_one() -> None:
    """Only a fire uses it up."""
    result = decide(crontab("0", "12", one_off=True), due=NOON, now=NOON + HOUR, catch_up=CatchUp.SKIP)
    assert (result.fires, result.next_due_at_ms) == ((), NOON + DAY)


def test_clocked_job_is_over_after_its_instant() -> None:
    """Fired late or skipped, it has no other slot."""
    clocked = JobSchedule(recurrence=ClockedRecurrence(at_ms=NOON))
    assert decide(clocked, due=NOON, now=NOON + HOUR) == Reckoning(fires=(NOON,), skipped=(), next_due_at_ms=None)
    assert decide(clocked, due=NOON, now=NOON + HOUR, catch_up=CatchUp.SKIP) == Reckoning(
        fires=(), skipped=(skipped(NOON, NOON, 1),), next_due_at_ms=None
    )


@pytest.mark.parametrize("catch_up", POLICIES)
@pytest.mark.parametrize("build", [partial(crontab, "*", "*"), partial(interval, MINUTE)])
@pytest.mark.parametrize("now", [NOON + 150 * SECOND, NOON + DAY])
def test_expired_job_fires_nothing_that_was_due_before(
    build: Callable[..., JobSchedule], catch_up: CatchUp, now: int
) -> None:
    """However little late; what was due is accounted for, what would come after the expiry does not exist."""
    assert decide(build(expires_at_ms=NOON + 150 * SECOND), due=NOON, now=now, catch_up=catch_up) == Reckoning(
        fires=(), skipped=(skipped(NOON, NOON + 2 * MINUTE, 3, SkipReason.EXPIRED),), next_due_at_ms=None
    )


def test_last_slot_before_the_expiry_fires_and_is_the_last() -> None:
    """Nothing is next due."""
    schedule = interval(MINUTE, expires_at_ms=NOON + MINUTE)
    assert decide(schedule, due=NOON, now=NOON + 1) == Reckoning(fires=(NOON,), skipped=(), next_due_at_ms=None)


def test_slot_planned_before_the_expiry_was_moved_ahead_of_it_is_accounted_for() -> None:
    """Planned for noon, then given an expiry of eleven."""
    assert decide(interval(MINUTE, expires_at_ms=NOON - HOUR), due=NOON, now=NOON + 1) == Reckoning(
        fires=(), skipped=(skipped(NOON, NOON, 1, SkipReason.EXPIRED),), next_due_at_ms=None
    )


def test_slot_waits_for_its_jitter() -> None:
    """Due is not ready: nothing is decided, and nothing is late, before the time with jitter has come."""
    jitter = {"job_id": 42, "jitter_s": 3600, "catch_up": CatchUp.SKIP}
    ready = jittered(NOON, job_id=42, jitter_s=3600)
    assert ready > NOON + MISSED_AFTER
    schedule = crontab("0", "12")
    assert decide(schedule, due=NOON, now=ready - 1, **jitter) == Reckoning(fires=(), skipped=(), next_due_at_ms=NOON)
    assert decide(schedule, due=NOON, now=ready + MISSED_AFTER, **jitter).fires == (NOON,)
    assert decide(schedule, due=NOON, now=ready + MISSED_AFTER + 1, **jitter).fires == ()


def test_expired_job_does_not_wait_for_the_jitter_of_what_it_skips() -> None:
    """Nothing fires any more: all is settled at once."""
    schedule = interval(MINUTE, expires_at_ms=NOON + 10 * MINUTE)
    result = decide(schedule, due=NOON, now=NOON + 10 * MINUTE, job_id=42, jitter_s=3600)
    assert (sum(stretch.slots for stretch in result.skipped), result.next_due_at_ms) == (10, None)


def test_missed_slot_is_not_the_latest_when_a_later_one_waits_for_its_jitter() -> None:
    """That one fires soon: a catch-up just before it would be a second firing for one outage."""
    jitter = {"job_id": 42, "jitter_s": 600}
    later, now = NOON + 15 * MINUTE, NOON + 15 * MINUTE + SECOND
    assert jittered(later, **jitter) > now
    assert decide(crontab("*/15", "*"), due=NOON, now=now, **jitter) == Reckoning(
        fires=(), skipped=(skipped(NOON, NOON, 1),), next_due_at_ms=later
    )
