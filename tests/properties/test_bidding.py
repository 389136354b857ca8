"""When a lease counts as unchanged, beside a full record of the readings."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from django_leased_cron.core.bidding import LeaseObserver
from django_leased_cron.core.lease import TakeoverReason
from tests.unit.core.test_bidding import HELD, TIMING, judge


@given(
    polls=st.lists(
        st.tuples(st.floats(min_value=0.1, max_value=20), st.sampled_from(["same", "renewed", "away"])), max_size=20
    )
)
def test_unchanged_is_what_a_full_record_of_the_readings_says(polls: list[tuple[float, str]]) -> None:
    """Compared with an observer that keeps every reading."""
    observer, record, row, at = LeaseObserver(), [(100.0, HELD)], HELD, 100.0
    judge(row, observer=observer, at=at)
    for pause, what in polls:
        at += pause
        if what == "away":
            record = []
            judge(replace(HELD, tenant_key="umbra"), observer=observer, at=at)
            continue
        row = replace(row, expires_at_ms=row.expires_at_ms + 1) if what == "renewed" else row
        record.append((at, row))
        since = next(
            seen_at
            for index, (seen_at, _) in enumerate(record)
            if all(later_row == row for _, later_row in record[index:])
        )
        expected = TakeoverReason.UNCHANGED if at - since >= TIMING.lease_ttl_s else None
        assert judge(row, observer=observer, at=at) is expected
