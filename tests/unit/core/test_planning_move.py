"""Planning a tenant that another scheduler has scheduled until now, or for a while."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from django_leased_cron.core.outbox import ChangedJob, ChangeKind
from django_leased_cron.core.planning import Planning
from tests.unit.core.job_rows import daily_at, every, planning_inputs

MINUTE = 60_000
HOUR = 60 * MINUTE
NOON = round(datetime(2026, 6, 1, 12, tzinfo=UTC).timestamp() * 1000)
FIRST_PASS = Planning(storage_zone=UTC, goes_on_from_last_run=True)
LATER = Planning(storage_zone=UTC, goes_on_from_last_run=False)
LAST_WEEK = "2026-05-25 09:00:00"
AT_1158 = "2026-06-01 11:58:00"
AT_1159 = "2026-06-01 11:59:00"


def clocked_at(time: str) -> str:
    return planning_inputs(clocked_id="1", clocked_time=f"2026-06-01 {time}", one_off="1")


def plan(inputs: str, planning: Planning = FIRST_PASS, kind: ChangeKind = ChangeKind.NEW, **columns: Any) -> int | None:
    values: dict[str, Any] = {"job_id": 7, "next_due_at_ms": None, "planned_inputs": "", "last_run_at": None}
    change = ChangedJob(kind=kind, inputs=inputs, **values | columns)
    return planning.plan(change, now_ms=NOON).next_due_at_ms


@pytest.mark.parametrize(
    ("inputs", "due_at_ms"),
    [
        (clocked_at("11:58:30"), NOON - 90_000),
        (clocked_at("12:00:00"), NOON),
        (clocked_at("12:00:30"), NOON + 30_000),
        (daily_at(12), NOON),
        (every(7 * 24 * 3600 + 2 * 3600 + 59 * 60 + 30), NOON - 30_000),
    ],
    ids=["clocked", "clocked now", "clocked later", "crontab", "interval"],
)
def test_job_that_has_not_come_due_before_the_switch_is_not_lost_in_it(inputs: str, due_at_ms: int) -> None:
    """The other scheduler's latest run, of any job, was at 11:58; an interval counts from when the row was saved."""
    assert plan(inputs, date_changed=LAST_WEEK, latest_run_at=AT_1158) == due_at_ms


@pytest.mark.parametrize(
    ("inputs", "columns"),
    [
        (clocked_at("11:57:30"), {"date_changed": LAST_WEEK, "latest_run_at": AT_1158}),
        (clocked_at("11:58:30"), {"date_changed": AT_1159, "latest_run_at": AT_1158}),
        (clocked_at("11:58:30"), {"date_changed": LAST_WEEK}),
        (clocked_at("11:58:30"), {"date_changed": LAST_WEEK, "latest_run_at": "0001-01-01 00:00:00"}),
        (clocked_at("11:58:30"), {"date_changed": "infinity", "latest_run_at": AT_1158}),
        (clocked_at("11:58:30"), {"date_changed": LAST_WEEK, "latest_run_at": AT_1158, "last_run_at": AT_1159}),
    ],
    ids=["before the latest run", "before it was saved", "nobody ran anything", "never", "unreadable", "it has run"],
)
def test_nothing_else_fires_for_the_past(inputs: str, columns: dict[str, Any]) -> None:
    """What the other scheduler must have seen, or could not have."""
    assert plan(inputs, **columns) is None


def test_later_pass_starts_from_now() -> None:
    """A job that is added then was nobody else's."""
    assert plan(daily_at(12), LATER, date_changed=LAST_WEEK, latest_run_at=AT_1158) == NOON + 24 * HOUR


@pytest.mark.parametrize("planning", [FIRST_PASS, LATER], ids=["first pass", "later"])
@pytest.mark.parametrize("kind", [ChangeKind.NEW, ChangeKind.RUN_BY_OTHER])
def test_one_off_that_another_scheduler_ran_does_not_run_again(planning: Planning, kind: ChangeKind) -> None:
    """``DatabaseScheduler`` counts the run at once, and switches the job off when its next slot comes."""
    inputs = daily_at(13, one_off="1")
    assert plan(inputs, planning, kind, last_run_at=AT_1158, total_run_count=1) is None
    assert plan(inputs, planning, kind, total_run_count=0) == NOON + HOUR
    assert plan(daily_at(13), planning, kind, last_run_at=AT_1158, total_run_count=1) == NOON + HOUR
