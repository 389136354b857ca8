"""What is planned for a job that is new or was edited, whatever its row and its plan said before."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from django_leased_cron.core.outbox import ChangeKind
from tests.unit.core.job_rows import every
from tests.unit.core.test_planning import YESTERDAY_AT_TEN, change, plan
from tests.unit.core.timetables import NOON, SECOND


@settings(max_examples=50)
@given(
    kind=st.sampled_from([ChangeKind.NEW, ChangeKind.EDITED]),
    every_s=st.integers(1, 10**7),
    before_s=st.integers(1, 10**7),
    due_in_ms=st.none() | st.integers(-(10**10), 10**10),
    last_run_at=st.none() | st.just(YESTERDAY_AT_TEN),
)
def test_nothing_new_or_re_scheduled_is_due_at_once(
    kind: ChangeKind, every_s: int, before_s: int, due_in_ms: int | None, last_run_at: str | None
) -> None:
    """Whatever was planned before, and whenever it last ran."""
    write = plan(
        change(
            kind,
            every(every_s, start_time="2026-01-01 00:00:00"),
            planned_inputs=every(before_s),
            next_due_at_ms=None if due_in_ms is None else NOON + due_in_ms,
            last_run_at=last_run_at,
        )
    )
    assert write.next_due_at_ms is not None
    assert NOON < write.next_due_at_ms <= NOON + every_s * SECOND
