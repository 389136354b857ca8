"""What holds of every reckoning, whatever the policy, the bounds, the jitter and the outage."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from django_leased_cron.core.jitter import jittered
from django_leased_cron.core.occurrence import CatchUp
from django_leased_cron.core.schedule import next_due
from tests.unit.core.timetables import HOUR, MINUTE, MISSED_AFTER, NOON, SECOND, crontab, decide, interval

POLICY = st.fixed_dictionaries(
    {
        "catch_up": st.sampled_from(CatchUp),
        "window_ms": st.sampled_from([0, MISSED_AFTER, 10 * MINUTE, 2 * HOUR]),
        "most": st.sampled_from([1, 2, 5, 500]),
        "job_id": st.integers(1, 5),
        "jitter_s": st.sampled_from([0, 0, 20, 90, 600]),
    }
)
EXPIRY = st.none() | st.integers(-10, 400).map(lambda count: NOON + count * 30 * SECOND)
BOUNDS = st.fixed_dictionaries({"one_off": st.booleans(), "expires_at_ms": EXPIRY})
OUTAGE = st.integers(0, 5 * HOUR)


@settings(max_examples=200)
@given(policy=POLICY, bounds=BOUNDS, outage=OUTAGE)
def test_interval_and_crontab_of_the_same_slots_are_reckoned_alike(
    policy: dict[str, Any], bounds: dict[str, Any], outage: int
) -> None:
    """What is counted in bulk comes out as what is walked."""
    counted = decide(interval(MINUTE, **bounds), due=NOON, now=NOON + outage, **policy)
    walked = decide(crontab("*", "*", **bounds), due=NOON, now=NOON + outage, **policy)
    assert counted == walked


@settings(max_examples=200)
@given(policy=POLICY, expires=EXPIRY, outage=OUTAGE, every=st.sampled_from([5 * SECOND, MINUTE]))
def test_every_slot_up_to_the_next_due_one_is_accounted_for_once(
    policy: dict[str, Any], expires: int | None, outage: int, every: int
) -> None:
    """Fires and stretches make up the cadence without a hole, an overlap or an open end."""
    schedule, now = interval(every, expires_at_ms=expires), NOON + outage
    result = decide(schedule, due=NOON, now=now, **policy)
    slots = sorted(
        [*result.fires]
        + [slot for s in result.skipped for slot in range(s.first_due_at_ms, s.last_due_at_ms + 1, every)]
    )
    assert slots == [NOON + index * every for index in range(len(slots))]
    assert sum(stretch.slots for stretch in result.skipped) == len(slots) - len(result.fires)
    if slots:
        assert result.next_due_at_ms == next_due(schedule, after_ms=slots[-1], base_ms=NOON)
    still_due = result.next_due_at_ms is not None and (
        jittered(result.next_due_at_ms, job_id=policy["job_id"], jitter_s=policy["jitter_s"]) <= now
    )
    assert not still_due or len(result.fires) == policy["most"]
