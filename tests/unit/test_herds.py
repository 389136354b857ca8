"""Finding seconds in which many jobs come due."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest

from django_leased_cron.core.planning import parse_planned
from django_leased_cron.job_tools.herds import Herd, find_herd
from django_leased_cron.job_tools.upcoming import JobPlan
from tests.unit.core.job_rows import daily_at, every, planning_inputs

FROM_MS = 1_800_000_000_000  # 2027-01-15 08:00:00 UTC
DAY_MS = 86_400_000
HOUR_MS = 3_600_000


def build_plan(name: str, inputs: str, *, due_in_ms: int, **columns: Any) -> JobPlan:
    values: dict[str, Any] = {
        "job": name,
        "id": 1,
        "task": "t",
        "enabled": True,
        "paused_until_ms": 0,
        "jitter_s": 0,
        "schedule": parse_planned(inputs, UTC),
        "next_due_at_ms": FROM_MS + due_in_ms,
        "is_planned": True,
        "error": "",
    }
    return JobPlan(**values | columns)


def find(*plans: JobPlan, size: int = 2) -> Herd | None:
    return find_herd(plans, from_ms=FROM_MS, until_ms=FROM_MS + DAY_MS, size=size)


def test_jobs_of_all_kinds_meet() -> None:
    """A crontab, an interval that comes there by its phase, another within the second, a one-off."""
    herd = find(
        build_plan("crontab", daily_at(12), due_in_ms=4 * HOUR_MS),
        build_plan("interval", every(7200), due_in_ms=0),
        build_plan("same second", every(7200), due_in_ms=HOUR_MS * 2 + 999),
        build_plan("other phase", every(7200), due_in_ms=1000),
        build_plan("once", daily_at(12, one_off="1"), due_in_ms=4 * HOUR_MS),
        size=4,
    )
    assert herd == Herd(at_ms=FROM_MS + 4 * HOUR_MS, jobs=["crontab", "interval", "same second", "once"], seconds=1)


def test_first_of_the_fullest_seconds_is_told() -> None:
    """And how many seconds there are."""
    herd = find(build_plan("a", every(3600), due_in_ms=5000), build_plan("b", every(7200), due_in_ms=5000))
    assert herd == Herd(at_ms=FROM_MS + 5000, jobs=["a", "b"], seconds=12)


def test_job_is_one_member_of_a_second() -> None:
    """However often it comes due in it: 1.5 seconds do not."""
    fast = planning_inputs(interval_id="1", interval_every="1500000", interval_period="microseconds")
    assert find(build_plan("fast", fast, due_in_ms=0)) is None
    herd = find(build_plan("fast", fast, due_in_ms=500), build_plan("tick", every(3), due_in_ms=2000))
    assert herd is not None
    assert (herd.at_ms, herd.seconds) == (FROM_MS + 2000, DAY_MS // 3000)


@pytest.mark.parametrize(
    "columns",
    [{"jitter_s": 1}, {"next_due_at_ms": None}, {"schedule": None, "error": "malformed"}],
    ids=["jitter", "finished", "malformed"],
)
def test_jobs_that_do_not_count(columns: dict[str, Any]) -> None:
    """Neither alone nor with others."""
    other = build_plan("other", every(3600), due_in_ms=0)
    assert find(other, build_plan("job", every(3600), due_in_ms=0, **columns)) is None


def test_one_off_counts_once() -> None:
    """Not at the later slots of its schedule."""
    once = build_plan("once", every(3600, one_off="1"), due_in_ms=0)
    herd = find(once, build_plan("hourly", every(3600), due_in_ms=0))
    assert herd == Herd(at_ms=FROM_MS, jobs=["once", "hourly"], seconds=1)


def test_what_comes_due_after_the_day_is_not_looked_at() -> None:
    """Nor what has come due before."""
    late = [build_plan(name, daily_at(8, one_off="1"), due_in_ms=DAY_MS) for name in ("a", "b")]
    overdue = [build_plan(name, daily_at(7, one_off="1"), due_in_ms=-HOUR_MS) for name in ("c", "d")]
    assert find(*late, *overdue) is None
