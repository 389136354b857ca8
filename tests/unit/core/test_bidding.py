"""When a standby may bid."""

from __future__ import annotations

from dataclasses import replace

import pytest

from django_leased_cron.core.bidding import LeaseObserver, find_soon_takeable, find_takeover
from django_leased_cron.core.clock import BootTime
from django_leased_cron.core.lease import LeaseReading, LeaseRow, TakeoverReason
from django_leased_cron.core.timing import LeaseTiming

NOW_MS = 1_800_000_000_000
TIMING = LeaseTiming(lease_ttl_s=30, heartbeat_s=10, poll_interval_s=0.5, rescue_after_s=1, publish_timeout_s=5)
WITHOUT_RESCUE = replace(TIMING, rescue_after_s=None)
HELD = LeaseRow(
    tenant_key="acme",
    holder_id="other",
    epoch=3,
    acquired_at_ms=NOW_MS - 60_000,
    expires_at_ms=NOW_MS + 20_000,
    progressed_at_ms=NOW_MS - 5_000,
    owed_since_ms=None,
)


def judge(
    row: LeaseRow,
    *beside: LeaseRow,
    observer: LeaseObserver | None = None,
    at: float = 100,
    timing: LeaseTiming = TIMING,
    held_epochs: dict[str, int] | None = None,
) -> TakeoverReason | None:
    """Observe one reading of ``row`` and the rows beside it, then judge ``row`` as the process ``me``."""
    observer = observer or LeaseObserver()
    reading = LeaseReading(now_ms=NOW_MS, leases={lease.tenant_key: lease for lease in (row, *beside)})
    observer.observe(reading, at=BootTime(at))
    return find_takeover(
        row,
        reading,
        holder_id="me",
        held_epochs=held_epochs or {},
        at=BootTime(at),
        timing=timing,
        observer=observer,
    )


def test_free_lease_is_taken() -> None:
    """Nobody holds it."""
    assert judge(replace(HELD, holder_id="", expires_at_ms=0)) is TakeoverReason.FREE


def test_idle_lease_of_a_live_holder_is_left_alone() -> None:
    """Nothing is owed, so however old its progress is, it is nobody's emergency."""
    assert judge(replace(HELD, progressed_at_ms=0)) is None


@pytest.mark.parametrize(("expires_in_ms", "expected"), [(1, None), (0, TakeoverReason.EXPIRED)])
def test_lease_expires_by_the_databases_clock(expires_in_ms: int, expected: TakeoverReason | None) -> None:
    """At the very millisecond, not before."""
    assert judge(replace(HELD, expires_at_ms=NOW_MS + expires_in_ms)) is expected


@pytest.mark.parametrize(("seconds", "expected"), [(29.9, None), (30, TakeoverReason.UNCHANGED)])
def test_row_unchanged_for_a_lease_ttl_is_taken(seconds: float, expected: TakeoverReason | None) -> None:
    """The bidder's own clock decides where the database's stepped back and nothing expires."""
    row = replace(HELD, expires_at_ms=NOW_MS + 86_400_000)
    observer = LeaseObserver()
    judge(row, observer=observer, at=100)
    assert judge(row, observer=observer, at=100 + seconds) is expected


@pytest.mark.parametrize(
    "changed",
    [
        replace(HELD, holder_id="third"),
        replace(HELD, epoch=4),
        replace(HELD, expires_at_ms=HELD.expires_at_ms + 1),
        replace(HELD, progressed_at_ms=HELD.progressed_at_ms + 1),
    ],
)
def test_any_sign_of_life_starts_the_wait_again(changed: LeaseRow) -> None:
    """A renewal, a claim, a takeover: each moves one of the four columns."""
    observer = LeaseObserver()
    judge(HELD, observer=observer, at=100)
    assert judge(changed, observer=observer, at=129) is None
    assert judge(changed, observer=observer, at=131) is None
    assert judge(changed, observer=observer, at=159) is TakeoverReason.UNCHANGED


def test_tenant_that_was_left_out_of_a_reading_is_observed_anew() -> None:
    """Not having looked is not having seen it unchanged."""
    observer = LeaseObserver()
    judge(HELD, observer=observer, at=100)
    judge(replace(HELD, tenant_key="umbra"), observer=observer, at=110)
    assert judge(HELD, observer=observer, at=140) is None


@pytest.mark.parametrize(("owed_for_ms", "expected"), [(999, None), (1_000, TakeoverReason.RESCUE)])
def test_owed_work_of_a_silent_holder_is_rescued(owed_for_ms: int, expected: TakeoverReason | None) -> None:
    """Unexpired or not, once it has been owed for RESCUE_AFTER."""
    assert judge(replace(HELD, owed_since_ms=NOW_MS - owed_for_ms)) is expected


def test_rescue_can_be_turned_off() -> None:
    """Then only the lease's end counts."""
    assert judge(replace(HELD, owed_since_ms=NOW_MS - 25_000), timing=WITHOUT_RESCUE) is None


def test_holder_busy_with_its_other_tenants_is_left_alone() -> None:
    """One queue may be long while the holder works on another."""
    owed = replace(HELD, owed_since_ms=NOW_MS - 25_000)
    busy = replace(HELD, tenant_key="umbra", progressed_at_ms=NOW_MS - 999)
    assert judge(owed, busy) is None
    assert judge(owed, replace(busy, holder_id="third")) is TakeoverReason.RESCUE


def test_wedged_tenant_of_a_busy_holder_is_rescued_after_a_lease_ttl() -> None:
    """Progress elsewhere excuses it only for so long."""
    busy = replace(HELD, tenant_key="umbra", progressed_at_ms=NOW_MS)
    wedged = replace(HELD, owed_since_ms=NOW_MS - 40_000, progressed_at_ms=NOW_MS - 29_999)
    assert judge(wedged, busy) is None
    assert judge(replace(wedged, progressed_at_ms=NOW_MS - 30_000), busy) is TakeoverReason.RESCUE


def test_own_term_is_no_takeover() -> None:
    """Whatever the row looks like: the keeper and the guard deal with it."""
    mine = replace(HELD, holder_id="me", expires_at_ms=0, owed_since_ms=0, progressed_at_ms=0)
    assert judge(mine, held_epochs={"acme": 3}) is None


@pytest.mark.parametrize("held_epochs", [{}, {"acme": 2}, {"umbra": 3}])
def test_own_row_without_the_term_is_judged_like_anybodys(held_epochs: dict[str, int]) -> None:
    """The reply to an acquire was lost, or trust ran out: nobody works on it."""
    mine = replace(HELD, holder_id="me")
    assert judge(mine, held_epochs=held_epochs) is None
    assert judge(replace(mine, expires_at_ms=NOW_MS), held_epochs=held_epochs) is TakeoverReason.EXPIRED


@pytest.mark.parametrize(
    ("row", "in_ms"),
    [
        (HELD, 20_000),
        (replace(HELD, owed_since_ms=NOW_MS + 300), 1_300),
        (replace(HELD, owed_since_ms=NOW_MS, progressed_at_ms=NOW_MS - 200), 1_000),
        (replace(HELD, owed_since_ms=NOW_MS - 5_000, progressed_at_ms=NOW_MS - 200), 800),
        (replace(HELD, owed_since_ms=NOW_MS + 60_000), 20_000),
    ],
)
def test_moment_from_which_a_lease_may_be_taken_is_known_beforehand(row: LeaseRow, in_ms: int) -> None:
    """If its holder does nothing more: not a millisecond before, and then."""
    observer = LeaseObserver()
    reading = LeaseReading(now_ms=NOW_MS, leases={"acme": row})
    observer.observe(reading, at=BootTime(100))
    soon = find_soon_takeable(reading, within_s=25, timing=TIMING, observer=observer)
    assert soon == {"acme": in_ms / 1000}
    assert find_soon_takeable(reading, within_s=in_ms / 1000, timing=TIMING, observer=observer) == {}
    for late_ms, is_takeable in ((-1, False), (0, True)):
        then = LeaseReading(now_ms=NOW_MS + in_ms + late_ms, leases={"acme": row})
        reason = find_takeover(
            row, then, holder_id="me", held_epochs={}, at=BootTime(100), timing=TIMING, observer=observer
        )
        assert (reason is not None) is is_takeable


def test_lease_that_may_be_taken_already_is_not_waited_for() -> None:
    """It was bid for; whatever became of that, the next poll shows it."""
    observer = LeaseObserver()
    rows = {"free": replace(HELD, holder_id="", expires_at_ms=0), "late": replace(HELD, owed_since_ms=NOW_MS - 5_000)}
    reading = LeaseReading(now_ms=NOW_MS, leases=rows)
    assert find_soon_takeable(reading, within_s=1, timing=TIMING, observer=observer) == {}
