"""What a claim is asked to do about what is due."""

from __future__ import annotations

from datetime import UTC
from typing import Any
from unittest.mock import DEFAULT, Mock

import pytest

from django_leased_cron.core.catch_up import Stretch, reckon
from django_leased_cron.core.claiming import ClaimRules, DueWork
from django_leased_cron.core.jitter import jittered
from django_leased_cron.core.occurrence import CatchUp, Delivery, SkipReason, build_task_id
from django_leased_cron.core.outbox import PlannedJob, Window
from tests.unit.core.job_rows import daily_at, every, planning_inputs
from tests.unit.core.timetables import DAY, HOUR, MINUTE, MISSED_AFTER, NOON, SECOND


def planned(job_id: int = 1, *, due_at_ms: int = NOON, inputs: str = every(3600), **columns: Any) -> PlannedJob:
    values: dict[str, Any] = {"next_due_at_ms": due_at_ms, "fire_at_ms": due_at_ms, "inputs": inputs}
    return PlannedJob(job_id=job_id, **values | columns)


def find(
    *jobs: PlannedJob, now_ms: int = NOON, limit: int = 500, requested: tuple[int, ...] = (), **rules: Any
) -> DueWork:
    """Find what is due by the settings' defaults."""
    defaults: dict[str, Any] = {
        "tenant_key": "acme",
        "storage_zone": UTC,
        "missed_after_ms": MISSED_AFTER,
        "catch_up": CatchUp.ONCE,
        "catch_up_window_ms": DAY,
        "delivery": Delivery.AT_LEAST_ONCE,
    }
    window = Window(now_ms=now_ms, jobs=jobs, requested=requested)
    return ClaimRules(**defaults | rules).find_due(window, now_ms=now_ms, limit=limit)


def slots(work: DueWork) -> list[tuple[int, list[int]]]:
    """Return the slots that fire, by job."""
    return [(advance.job_id, [fire.due_at_ms for fire in advance.fires]) for advance in work.advances]


def test_due_job_fires_under_its_name_and_moves_on() -> None:
    """The plan it replaces is named, so that one that changed meanwhile is left alone."""
    [advance] = find(planned(7, due_at_ms=NOON - SECOND)).advances
    [fire] = advance.fires
    assert fire.due_at_ms == NOON - SECOND
    assert fire.task_id == build_task_id(tenant_key="acme", job_id=7, due_at_ms=NOON - SECOND)
    assert (advance.inputs, advance.planned_due_at_ms) == (every(3600), NOON - SECOND)
    assert (advance.next_due_at_ms, advance.next_fire_at_ms) == (NOON - SECOND + HOUR, NOON - SECOND + HOUR)


def test_job_is_due_at_the_very_millisecond() -> None:
    """And not one before."""
    assert slots(find(planned(1, due_at_ms=NOON), planned(2, due_at_ms=NOON + 1))) == [(1, [NOON])]


def test_no_more_is_claimed_than_the_limit() -> None:
    """The oldest first; what people asked for by hand counts, and goes before."""
    jobs = [planned(job_id, due_at_ms=NOON - 10 + job_id) for job_id in range(5)]
    work = find(*jobs, limit=3, requested=(91,))
    assert work.requested == (91,)
    assert [job_id for job_id, _ in slots(work)] == [0, 1]
    full = find(*jobs, limit=2, requested=(91, 92, 93))
    assert (full.requested, slots(full)) == ((91, 92), [])


def test_one_job_with_many_missed_slots_keeps_the_limit_too() -> None:
    """The rest comes with the next claim; the job after it waits its turn."""
    work = find(planned(1, due_at_ms=NOON - 9 * MINUTE, inputs=every(60), catch_up="all"), planned(2), limit=4)
    assert slots(work) == [(1, [NOON - minutes * MINUTE for minutes in (9, 8, 7, 6)])]
    assert work.advances[0].next_due_at_ms == NOON - 5 * MINUTE


def test_skipped_slots_take_no_room() -> None:
    """They are one row each, however many, and nothing is published for them."""
    work = find(planned(1, due_at_ms=NOON - HOUR, inputs=daily_at(11), catch_up="skip"), planned(2), limit=1)
    assert slots(work) == [(1, []), (2, [NOON])]


def test_job_that_may_not_overlap_fires_one_at_a_time() -> None:
    """The claim looks for an unfinished predecessor among the rows that are there."""
    work = find(planned(1, due_at_ms=NOON - 5 * SECOND, inputs=every(1), overlap="skip"))
    assert slots(work) == [(1, [NOON - 5 * SECOND])]
    assert work.advances[0].next_due_at_ms == NOON - 4 * SECOND
    assert len(find(planned(1, due_at_ms=NOON - 5 * SECOND, inputs=every(1))).advances[0].fires) == 6


@pytest.mark.parametrize(
    ("policy", "fires"),
    [
        ("skip", []),
        ("once", [NOON - MINUTE]),
        ("all", [NOON - 3 * MINUTE, NOON - 2 * MINUTE, NOON - MINUTE]),
        ("", [NOON - MINUTE]),
    ],
)
def test_jobs_own_catch_up_decides_about_missed_slots(policy: str, fires: list[int]) -> None:
    """Without one, the settings'."""
    job = planned(1, due_at_ms=NOON - 3 * MINUTE, inputs=every(60), catch_up=policy)
    work = find(job, now_ms=NOON - 20 * SECOND, missed_after_ms=30 * SECOND)
    assert slots(work) == [(1, fires)]
    assert sum(stretch.slots for stretch in work.advances[0].skipped) == 3 - len(fires)


@pytest.mark.parametrize(("late_ms", "fires"), [(MISSED_AFTER, [NOON]), (MISSED_AFTER + 1, [])])
def test_slot_that_is_late_but_not_missed_always_fires(late_ms: int, fires: list[int]) -> None:
    """Whatever the policy: a failover is no outage."""
    assert slots(find(planned(1, catch_up="skip"), now_ms=NOON + late_ms)) == [(1, fires)]


@pytest.mark.parametrize(("window_s", "fires"), [(None, [NOON - 2 * HOUR]), (7200, [NOON - 2 * HOUR]), (7199, [])])
def test_jobs_own_window_bounds_its_catch_up(window_s: int | None, fires: list[int]) -> None:
    """A missed slot older than it is skipped, and says so."""
    work = find(planned(1, due_at_ms=NOON - 2 * HOUR, inputs=daily_at(10), catch_up_window_s=window_s))
    assert slots(work) == [(1, fires)]
    if not fires:
        [stretch] = work.advances[0].skipped
        assert stretch == Stretch(
            first_due_at_ms=NOON - 2 * HOUR, last_due_at_ms=NOON - 2 * HOUR, slots=1, reason=SkipReason.WINDOW
        )


@pytest.mark.parametrize(("own", "delivery"), [("", "at_least_once"), ("at_most_once", "at_most_once")])
def test_delivery_in_force_goes_with_the_claim(own: str, delivery: str) -> None:
    """The job's own before the settings'."""
    assert find(planned(1, delivery=own)).advances[0].delivery == delivery


def test_next_slot_keeps_its_time_and_fires_with_its_jitter() -> None:
    """The same on every machine."""
    job = planned(5, fire_at_ms=jittered(NOON, job_id=5, jitter_s=60), jitter_s=60)
    [advance] = find(job, now_ms=job.fire_at_ms).advances
    assert [fire.due_at_ms for fire in advance.fires] == [NOON]
    assert advance.next_due_at_ms == NOON + HOUR
    assert advance.next_fire_at_ms == jittered(NOON + HOUR, job_id=5, jitter_s=60)


def test_job_whose_jitter_is_not_over_waits() -> None:
    """Though its slot has passed."""
    assert find(planned(1, due_at_ms=NOON - SECOND, fire_at_ms=NOON + 1, jitter_s=60)).advances == []


def test_one_off_has_nothing_planned_after_its_run() -> None:
    """An interval's first slot is its only one."""
    [advance] = find(planned(1, inputs=every(3600, one_off="1"))).advances
    assert (len(advance.fires), advance.next_due_at_ms) == (1, None)


def test_one_off_whose_slot_was_skipped_has_no_run() -> None:
    """Nor anything planned after it."""
    clocked = planning_inputs(clocked_id="1", clocked_time="2026-06-01 12:00:00", one_off="1")
    [advance] = find(planned(1, inputs=clocked, catch_up="skip"), now_ms=NOON + HOUR).advances
    assert (advance.fires, advance.next_due_at_ms) == ([], None)


def test_job_past_its_expiry_fires_nothing_more() -> None:
    """Not even what came due before it."""
    job = planned(1, due_at_ms=NOON - SECOND, inputs=every(3600, expires="2026-06-01 12:00:00"))
    [advance] = find(job).advances
    assert (advance.fires, advance.next_due_at_ms) == ([], None)
    assert [stretch.reason for stretch in advance.skipped] == [SkipReason.EXPIRED]


@pytest.mark.parametrize(
    "bad",
    [
        planned(1, inputs=daily_at(12, crontab_timezone="Mars/Olympus")),
        planned(1, inputs=every(0)),
        planned(1, inputs="of another format"),
    ],
    ids=["zone", "interval", "format"],
)
def test_job_that_cannot_be_reckoned_any_more_harms_only_itself(bad: PlannedJob) -> None:
    """A zone that the machine no longer knows, say: it is named, and the others fire."""
    work = find(bad, planned(2), limit=1)
    assert [job.job_id for job, _ in work.malformed] == [1]
    assert slots(work) == [(2, [NOON])]


def test_row_that_nobody_has_thought_of_is_malformed_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of ours in its arithmetic: the others fire."""
    stumbling = Mock(wraps=reckon, side_effect=[OverflowError, DEFAULT])
    monkeypatch.setattr("django_leased_cron.core.claiming.reckon", stumbling)
    work = find(planned(1), planned(2))
    [(job, error)] = work.malformed
    assert job.job_id == 1
    assert "OverflowError" in str(error)
    assert slots(work) == [(2, [NOON])]
