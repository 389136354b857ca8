"""What is planned for a job whose row no longer fits its plan."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import Any
from unittest.mock import Mock
from zoneinfo import ZoneInfo

import pytest

from django_leased_cron.core.occurrence import SkipReason
from django_leased_cron.core.outbox import ChangedJob, ChangeKind, PlanWrite
from django_leased_cron.core.planning import Planning
from tests.unit.core.job_rows import daily_at, every, planning_inputs
from tests.unit.core.timetables import DAY, HOUR, MINUTE, NOON, SECOND

FIRST_TERM = Planning(storage_zone=UTC, goes_on_from_last_run=True)
LATER_TERM = Planning(storage_zone=UTC, goes_on_from_last_run=False)
HOURLY = every(3600)
YESTERDAY_AT_TEN = "2026-05-31 10:00:00.000000"


def change(kind: ChangeKind, inputs: str = HOURLY, **columns: Any) -> ChangedJob:
    values: dict[str, Any] = {"job_id": 7, "next_due_at_ms": None, "planned_inputs": "", "last_run_at": None}
    return ChangedJob(kind=kind, inputs=inputs, **values | columns)


def edit(inputs: str, *, before: str = HOURLY, due_at_ms: int | None = NOON + 20 * MINUTE) -> ChangedJob:
    return change(ChangeKind.EDITED, inputs, planned_inputs=before, next_due_at_ms=due_at_ms)


def plan(changed: ChangedJob, planning: Planning = LATER_TERM) -> PlanWrite:
    return planning.plan(changed, now_ms=NOON)


# New rows.


@pytest.mark.parametrize(
    ("inputs", "due_at_ms"),
    [
        (HOURLY, NOON + HOUR),
        (every(3600, start_time="2026-06-01 13:30:00"), NOON + 90 * MINUTE),
        (every(3600, start_time="2026-06-01 09:10:00"), NOON + 10 * MINUTE),
        (daily_at(12), NOON + DAY),
        (daily_at(5), NOON + 17 * HOUR),
        (planning_inputs(clocked_id="1", clocked_time="2026-06-01 12:00:01"), NOON + SECOND),
        (planning_inputs(clocked_id="1", clocked_time="2026-06-01 12:00:00"), None),
    ],
    ids=["interval", "starts later", "started", "at noon", "at five", "clocked later", "clocked now"],
)
def test_new_job_begins_with_its_next_regular_slot(inputs: str, due_at_ms: int | None) -> None:
    """Later than now, never at once."""
    write = plan(change(ChangeKind.NEW, inputs))
    assert (write.next_due_at_ms, write.fire_at_ms) == (due_at_ms, due_at_ms)
    assert (write.inputs, write.error, write.delete) == (inputs, "", False)


@pytest.mark.parametrize(
    ("inputs", "due_at_ms"),
    [
        (every(24 * 3600), NOON - 2 * HOUR),
        (every(36 * 3600), NOON + 10 * HOUR),
        (every(3600, start_time="2026-05-01 00:30:00"), NOON - 25 * HOUR - 30 * MINUTE),
        (daily_at(5), NOON - 7 * HOUR),
        (daily_at(11, expires="2026-06-01 08:00:00"), NOON - 25 * HOUR),
    ],
    ids=["overdue", "to come", "cadence of the start", "crontab", "expired since"],
)
def test_tenants_first_term_goes_on_from_the_last_run(inputs: str, due_at_ms: int) -> None:
    """A move from another scheduler neither repeats nor loses a firing; what is past is for catch-up to judge."""
    write = plan(change(ChangeKind.NEW, inputs, last_run_at=YESTERDAY_AT_TEN), FIRST_TERM)
    assert write.next_due_at_ms == due_at_ms
    assert write.known_run_at_ms == NOON - 26 * HOUR


def test_last_run_of_a_new_row_means_nothing_in_later_terms() -> None:
    """A copy of an old row, or a fixture."""
    write = plan(change(ChangeKind.NEW, every(24 * 3600), last_run_at=YESTERDAY_AT_TEN))
    assert write.next_due_at_ms == NOON + DAY
    assert write.known_run_at_ms == NOON - 26 * HOUR


@pytest.mark.parametrize("last_run_at", [None, "", "0000-00-00 00:00:00", "2026-06-01 12:00:01"])
def test_last_run_that_cannot_be_true_is_no_starting_point(last_run_at: str | None) -> None:
    """Never, not a date, in the future."""
    write = plan(change(ChangeKind.NEW, every(24 * 3600), last_run_at=last_run_at), FIRST_TERM)
    assert write.next_due_at_ms == NOON + DAY


def test_last_run_of_long_ago_is_not_caught_up_from_there() -> None:
    """Some write "never" as the year 1: a year is looked back at most, on the cadence it gives."""
    write = plan(change(ChangeKind.NEW, every(24 * 3600), last_run_at="0001-01-01 10:00:00"), FIRST_TERM)
    assert write.next_due_at_ms == NOON - 366 * DAY + 22 * HOUR


def test_last_run_is_read_in_the_zone_of_the_database() -> None:
    """With ``USE_TZ`` off the rows hold local time."""
    shanghai = Planning(storage_zone=ZoneInfo("Asia/Shanghai"), goes_on_from_last_run=True)
    write = plan(change(ChangeKind.NEW, HOURLY, last_run_at="2026-06-01 19:30:00"), shanghai)
    assert write.next_due_at_ms == NOON + 30 * MINUTE


SEES_LATE = replace(LATER_TERM, seen_within_ms=30 * SECOND)
SAVED = {"date_changed": "2026-06-01 11:59:40.000000"}
AT_NOON = planning_inputs(clocked_id="1", clocked_time="2026-06-01 11:59:50")


@pytest.mark.parametrize(
    ("inputs", "due_at_ms"),
    [(AT_NOON, NOON - 10 * SECOND), (daily_at(12), NOON), (every(15), NOON - 5 * SECOND)],
    ids=["clocked", "crontab", "interval"],
)
def test_job_saved_just_before_it_is_due_does_not_miss_that(inputs: str, due_at_ms: int) -> None:
    """Its holder died at that moment, and nobody sees the job for twenty seconds."""
    assert plan(change(ChangeKind.NEW, inputs, **SAVED), SEES_LATE).next_due_at_ms == due_at_ms


def test_job_that_was_not_there_at_the_last_look_begins_after_that() -> None:
    """Saved disabled, and enabled by an update that leaves the time alone: nothing fires for what came before."""
    write = SEES_LATE.plan(change(ChangeKind.NEW, every(5), **SAVED), now_ms=NOON, looked_at_ms=NOON - SECOND)
    assert write.next_due_at_ms == NOON + 4 * SECOND


@pytest.mark.parametrize(
    "columns",
    [
        {"date_changed": "2026-06-01 11:59:29"},
        {"date_changed": "2026-06-01 12:00:01"},
        {"date_changed": "infinity"},
        {"date_changed": None},
        {**SAVED, "planned_inputs": HOURLY},
        {**SAVED, "total_run_count": 1},
        {**SAVED, "last_run_at": "2026-05-31 10:00:00"},
    ],
    ids=["long ago", "in the future", "unreadable", "unknown", "planned before", "counted", "ran before"],
)
def test_other_new_plan_begins_now(columns: dict[str, Any]) -> None:
    """Nothing fires for the past: a host whose clock is wrong says nothing, nor the save of a job that had its plan."""
    assert plan(change(ChangeKind.NEW, AT_NOON, **columns), SEES_LATE).next_due_at_ms is None


def test_job_that_never_ran_is_known_to_have_been_looked_at_now() -> None:
    """A run before that is nobody's news."""
    assert plan(change(ChangeKind.NEW)).known_run_at_ms == NOON


# Edits.


def test_edit_of_the_schedule_plans_from_now() -> None:
    """Moved from 13:30 to 14:30 at 12:00 it fires at 14:30 only; the slot it replaces is named."""
    write = plan(edit(daily_at(14), before=daily_at(13), due_at_ms=NOON + HOUR))
    assert write.next_due_at_ms == NOON + 2 * HOUR
    assert (write.replaced_inputs, write.replaced_due_at_ms) == (daily_at(13), NOON + HOUR)
    assert write.replaced_because is SkipReason.RESCHEDULED


def test_edit_of_an_overdue_job_does_not_fire_for_the_past() -> None:
    """The slot that was due on the old terms is left to be recorded as skipped."""
    write = plan(edit(daily_at(11), before=daily_at(10), due_at_ms=NOON - 2 * HOUR))
    assert write.next_due_at_ms == NOON + 23 * HOUR


def test_new_interval_counts_from_the_edit() -> None:
    """Not from the slot of the old one."""
    assert plan(edit(every(600))).next_due_at_ms == NOON + 10 * MINUTE


@pytest.mark.parametrize("due_at_ms", [NOON + 20 * MINUTE, NOON - SECOND])
@pytest.mark.parametrize(
    "inputs",
    [every(3600, expires="2026-06-02 00:00:00"), every(3600, one_off="1"), every(3600, interval_id="9")],
    ids=["expiry", "one-off", "same interval, another row"],
)
def test_edit_that_leaves_the_timetable_alone_keeps_the_cadence(inputs: str, due_at_ms: int) -> None:
    """An expiry, a one-off, another row of the same interval: the next slot stays, a due one too."""
    assert plan(edit(inputs, due_at_ms=due_at_ms)).next_due_at_ms == due_at_ms


def test_slot_at_or_after_a_new_expiry_is_dropped() -> None:
    """20 past is the end itself."""
    assert plan(edit(every(3600, expires="2026-06-01 12:20:00"))).next_due_at_ms is None
    assert plan(edit(every(3600, expires="2026-06-01 12:20:01"))).next_due_at_ms == NOON + 20 * MINUTE


def test_other_start_time_is_another_timetable() -> None:
    """An interval's cadence goes through it."""
    assert plan(edit(every(3600, start_time="2026-06-01 08:40:00"))).next_due_at_ms == NOON + 40 * MINUTE


@pytest.mark.parametrize("before", ["", "of another format", every(0)], ids=["none", "format", "malformed"])
def test_job_whose_old_plan_cannot_be_read_is_planned_from_now(before: str) -> None:
    """It was malformed, or disabled."""
    assert plan(edit(HOURLY, before=before)).next_due_at_ms == NOON + HOUR


def test_finished_job_that_is_edited_is_planned_from_now() -> None:
    """Its expiry was moved; there is no slot to keep."""
    write = plan(edit(every(3600, expires="2026-07-01 00:00:00"), due_at_ms=None))
    assert write.next_due_at_ms == NOON + HOUR


# The other kinds of change.


def test_disabled_job_is_un_planned() -> None:
    """With an empty plan text: enabling it later is a new plan."""
    write = plan(change(ChangeKind.DISABLED, planned_inputs=HOURLY, next_due_at_ms=NOON))
    assert (write.inputs, write.next_due_at_ms, write.fire_at_ms) == ("", None, None)
    assert write.replaced_because is SkipReason.DISABLED
    assert not write.delete


def test_deleted_job_leaves_no_plan() -> None:
    """The slot it had is named, for the record."""
    write = plan(change(ChangeKind.DELETED, "", planned_inputs=HOURLY, next_due_at_ms=NOON))
    assert write.delete
    assert (write.replaced_due_at_ms, write.replaced_because) == (NOON, SkipReason.DELETED)


@pytest.mark.parametrize("kind", [ChangeKind.EDITED, ChangeKind.DISABLED, ChangeKind.DELETED])
def test_all_due_slots_that_an_edit_replaces_are_accounted_for(kind: ChangeKind) -> None:
    """Five hours of outage, then the edit: 7, 8, … 12 o'clock, as one stretch (I3)."""
    write = plan(change(kind, daily_at(9), planned_inputs=HOURLY, next_due_at_ms=NOON - 5 * HOUR))
    assert (write.replaced_due_at_ms, write.replaced_slots) == (NOON - 5 * HOUR, 6)
    assert write.replaced_last_due_at_ms == NOON


def test_replaced_plan_that_nobody_can_read_accounts_for_the_slot_it_names() -> None:
    """What it was planned from is in another release's words; its first slot is certain."""
    write = plan(change(ChangeKind.DISABLED, planned_inputs="old text", next_due_at_ms=NOON - 5 * HOUR))
    assert (write.replaced_slots, write.replaced_last_due_at_ms) == (1, None)


def test_one_off_that_an_edit_replaces_had_one_slot() -> None:
    """It would have fired once."""
    write = plan(change(ChangeKind.DISABLED, planned_inputs=every(3600, one_off="1"), next_due_at_ms=NOON - 5 * HOUR))
    assert (write.replaced_slots, write.replaced_last_due_at_ms) == (1, NOON - 5 * HOUR)


@pytest.mark.parametrize("due_at_ms", [NOON - HOUR, NOON + HOUR, None])
def test_other_format_of_the_text_plans_nothing_anew(due_at_ms: int | None) -> None:
    """A rolling deploy is not an edit of every job: an overdue slot stays."""
    old = change(ChangeKind.REFORMATTED, planned_inputs="old text", next_due_at_ms=due_at_ms)
    write = plan(old)
    assert (write.replaced_inputs, write.inputs) == ("old text", HOURLY)
    assert write.next_due_at_ms == due_at_ms
    assert write.known_run_at_ms is None


@pytest.mark.parametrize("planning", [FIRST_TERM, LATER_TERM])
def test_run_by_another_scheduler_is_where_the_plan_goes_on(planning: Planning) -> None:
    """Nothing before it is caught up, whichever term this is."""
    ran = "2026-06-01 11:45:00.250000"
    changed = change(ChangeKind.RUN_BY_OTHER, planned_inputs=HOURLY, next_due_at_ms=NOON - DAY, last_run_at=ran)
    write = plan(changed, planning)
    assert write.next_due_at_ms == NOON + 45 * MINUTE + 250
    assert write.known_run_at_ms == NOON - 15 * MINUTE + 250


def test_jitter_moves_the_firing_and_not_the_slot() -> None:
    """By less than the seconds allowed, and for each job differently."""
    delays = set()
    for job_id in range(20):
        write = plan(change(ChangeKind.NEW, job_id=job_id, jitter_s=60))
        assert write.next_due_at_ms == NOON + HOUR
        assert write.fire_at_ms is not None
        delays.add(write.fire_at_ms - write.next_due_at_ms)
    assert len(delays) > 10
    assert all(0 <= delay < 60_000 for delay in delays)


# Malformed rows.


@pytest.mark.parametrize(
    ("inputs", "columns", "reason"),
    [
        (planning_inputs(), {}, "schedule"),
        (daily_at(25), {}, "crontab_hour '25'"),
        (daily_at(5, crontab_timezone="Mars/Olympus"), {}, "crontab_timezone 'Mars/Olympus'"),
        (every(0), {}, "interval_every '0'"),
        (daily_at(5, crontab_day_of_month="30", crontab_month_of_year="2"), {}, "crontab_day_of_month"),
        (HOURLY, {"args": "{}"}, "args"),
        (HOURLY, {"kwargs": "[]"}, "kwargs"),
        (HOURLY, {"headers": "[]"}, "headers"),
    ],
    ids=["no schedule", "hour", "zone", "interval", "30 February", "args", "kwargs", "headers"],
)
@pytest.mark.parametrize("kind", [ChangeKind.NEW, ChangeKind.EDITED, ChangeKind.RUN_BY_OTHER])
def test_malformed_job_is_un_planned_with_its_reason(
    kind: ChangeKind, inputs: str, columns: dict[str, str], reason: str
) -> None:
    """And remembered as it is, text and message, so that the next pass leaves it alone until somebody edits it."""
    write = plan(change(kind, inputs, planned_inputs=HOURLY, next_due_at_ms=NOON, message_digest="d41d", **columns))
    assert write.error.startswith(reason)
    assert (write.next_due_at_ms, write.fire_at_ms, write.known_run_at_ms) == (None, None, None)
    assert (write.inputs, write.message_digest) == (inputs, "d41d")
    assert (write.replaced_inputs, write.replaced_due_at_ms) == (HOURLY, NOON)
    assert write.replaced_because is SkipReason.MALFORMED


def test_row_that_nobody_has_thought_of_is_malformed_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of ours in its arithmetic: a person is asked to report it, and the pass goes on."""
    monkeypatch.setattr("django_leased_cron.core.planning.first_due", Mock(side_effect=OverflowError))
    write = plan(change(ChangeKind.NEW, message_digest="d41d"))
    assert "OverflowError" in write.error
    assert (write.next_due_at_ms, write.inputs, write.message_digest) == (None, HOURLY, "d41d")


def test_field_that_holds_the_separator_is_a_malformed_job_like_any_other() -> None:
    """A control character in one crontab is no reason to stop planning all jobs."""
    assert plan(change(ChangeKind.NEW, daily_at(5, crontab_minute="\x1f"))).error
