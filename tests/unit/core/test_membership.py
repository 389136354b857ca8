"""Which processes count on a share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from django_leased_cron.core.lease import FREE, LeaseReading, LeaseRow, SeenProcess
from django_leased_cron.core.membership import MembershipObserver

NOW_MS = 1_800_000_000_000
TTL_MS = 30_000
ME = SeenProcess(holder_id="me", last_seen_at_ms=NOW_MS, draining=False, tenants=frozenset())
OTHER = replace(ME, holder_id="other")


def reading(holder_id: str, *, now_ms: int = NOW_MS) -> LeaseReading:
    row = LeaseRow(
        tenant_key="acme",
        holder_id=holder_id,
        epoch=1,
        acquired_at_ms=0,
        expires_at_ms=0,
        progressed_at_ms=0,
        owed_since_ms=None,
    )
    return LeaseReading(now_ms=now_ms, leases={"acme": row})


@pytest.fixture
def observer() -> MembershipObserver:
    return MembershipObserver(holder_id="me", lease_ttl_ms=TTL_MS)


@pytest.mark.parametrize(("ago_ms", "counts"), [(TTL_MS, True), (TTL_MS + 1, False)])
def test_process_counts_while_it_reports_itself(observer: MembershipObserver, ago_ms: int, counts: bool) -> None:  # noqa: FBT001 - a column of the table
    """Within LEASE_TTL, by the database's clock."""
    seen = replace(OTHER, last_seen_at_ms=NOW_MS - ago_ms)
    assert ("other" in observer.observe(reading(FREE), [ME, seen])) is counts


def test_draining_process_does_not_count(observer: MembershipObserver) -> None:
    """It is about to give everything away."""
    assert set(observer.observe(reading(FREE), [ME, replace(OTHER, draining=True)])) == {"me"}


@pytest.mark.parametrize("next_holder", ["third", FREE])
def test_process_that_lost_a_lease_counts_when_it_reports_itself_again(
    observer: MembershipObserver, next_holder: str
) -> None:
    """Until then it may be dead, and look like the one with room for more."""
    observer.observe(reading("other"), [ME, OTHER])
    later_ms = NOW_MS + 1000
    assert set(observer.observe(reading(next_holder, now_ms=later_ms), [ME, OTHER])) == {"me"}
    assert set(observer.observe(reading(next_holder, now_ms=later_ms + 500), [ME, OTHER])) == {"me"}
    back = replace(OTHER, last_seen_at_ms=later_ms + 1)
    assert set(observer.observe(reading(next_holder, now_ms=later_ms + 600), [ME, back])) == {"me", "other"}


def test_process_itself_counts_whatever_it_lost(observer: MembershipObserver) -> None:
    """It runs."""
    observer.observe(reading("me"), [ME])
    stale = replace(ME, last_seen_at_ms=NOW_MS - 2 * TTL_MS)
    assert set(observer.observe(reading("other"), [stale])) == {"me"}


def test_process_without_a_row_does_not_count(observer: MembershipObserver) -> None:
    """It ended politely."""
    observer.observe(reading("other"), [ME, OTHER])
    assert set(observer.observe(reading("other"), [ME])) == {"me"}


def test_process_takes_no_tenant_that_it_was_given_and_did_not_take_up(observer: MembershipObserver) -> None:
    """It may not list it; that is forgotten with the process."""
    observer.note_refusal("other", "acme")
    other = observer.observe(reading("me"), [ME, OTHER])["other"]
    assert [other.takes(tenant_key) for tenant_key in ("acme", "umbra")] == [False, True]
    observer.observe(reading("me"), [ME])
    assert observer.observe(reading("me"), [ME, OTHER])["other"].takes("acme")
