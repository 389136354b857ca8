"""What every lease store does, by one connection at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone

from django_leased_cron.core.lease import Acquired, HeldByOther, LeaseRow, ProcessReport, SeenProcess, TakeoverReason
from django_leased_cron.exceptions import StoreError
from django_leased_cron.models import SchedulerLease, SchedulerProcess
from tests.contract.lease_stores import NOW_MS, RESCUE_MS, TTL_MS, Stores, renewal

Columns = dict[str, Any]
FREE: Columns = {"holder_id": "", "expires_at_ms": 0}
EXPIRED: Columns = {"expires_at_ms": NOW_MS}
OWED: Columns = {"owed_since_ms": NOW_MS - RESCUE_MS, "progressed_at_ms": NOW_MS - RESCUE_MS}
REPORT = ProcessReport(holder_id="me", host="web-1", pid=42, version="0.1", draining=False, tenants=["acme", "umbra"])


def test_first_reading_creates_free_leases(stores: Stores) -> None:
    """One query for all tenants; rows that are missing appear, free and at epoch 0."""
    reading = stores.build().read(["acme", "umbra", "acme"])
    assert reading.now_ms == NOW_MS
    assert set(reading.leases) == {"acme", "umbra"}
    assert reading.leases["acme"] == LeaseRow(
        tenant_key="acme",
        holder_id="",
        epoch=0,
        acquired_at_ms=0,
        expires_at_ms=0,
        progressed_at_ms=0,
        owed_since_ms=None,
    )


def test_reading_shows_the_row_as_it_is(stores: Stores) -> None:
    """Every column, and only of the tenants asked for."""
    stores.put("umbra")
    columns: Columns = {
        "holder_id": "other",
        "epoch": 5,
        "acquired_at_ms": 1,
        "expires_at_ms": 2,
        "progressed_at_ms": 3,
        "owed_since_ms": 4,
        "hand_over_requested_at_ms": 6,
    }
    stores.put(**columns)
    assert stores.build().read(["acme"]).leases == {"acme": LeaseRow(tenant_key="acme", **columns)}


def test_clock_is_read_without_any_tenant(stores: Stores) -> None:
    """A process without tenants still wants the time."""
    reading = stores.build().read([])
    assert reading.now_ms == NOW_MS
    assert reading.leases == {}


def test_clock_is_the_databases_own_in_milliseconds(stores: Stores) -> None:
    """UTC, on every vendor; all of them run on this machine."""
    before_ms = timezone.now().timestamp() * 1000
    now_ms = stores.build_real().read([]).now_ms
    after_ms = timezone.now().timestamp() * 1000
    assert before_ms - 2 <= now_ms <= after_ms + 2


@pytest.mark.parametrize("database_alias", ["mysql"], indirect=True)
def test_keys_that_the_database_takes_for_one_are_an_error(stores: Stores) -> None:
    """The usual collations ignore case: two tenants would share one lease."""
    with pytest.raises(StoreError, match=r"'acme'.*another tenant's key in other case"):
        stores.build().read(["ACME", "acme"])


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (FREE, TakeoverReason.FREE),
        (EXPIRED, TakeoverReason.EXPIRED),
        ({}, TakeoverReason.UNCHANGED),
        (OWED, TakeoverReason.RESCUE),
    ],
)
def test_acquire_takes_the_row_as_seen(stores: Stores, columns: Columns, reason: TakeoverReason) -> None:
    """The epoch grows by one, the times start anew, what is owed stays owed."""
    seen = stores.put(**columns, hand_over_requested_at_ms=1)
    outcome = stores.build().try_acquire(seen, holder_id="me", reason=reason)
    assert outcome == Acquired(tenant_key="acme", epoch=8, now_ms=NOW_MS)
    assert stores.row() == LeaseRow(
        tenant_key="acme",
        holder_id="me",
        epoch=8,
        acquired_at_ms=NOW_MS,
        expires_at_ms=NOW_MS + TTL_MS,
        progressed_at_ms=NOW_MS,
        owed_since_ms=seen.owed_since_ms,
        hand_over_requested_at_ms=None,
    )


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({}, TakeoverReason.FREE),
        ({"expires_at_ms": NOW_MS + 1}, TakeoverReason.EXPIRED),
        ({}, TakeoverReason.RESCUE),
        (OWED | {"owed_since_ms": NOW_MS - RESCUE_MS + 1}, TakeoverReason.RESCUE),
        (OWED | {"progressed_at_ms": NOW_MS - RESCUE_MS + 1}, TakeoverReason.RESCUE),
    ],
)
def test_acquire_wants_the_reason_to_hold_by_the_databases_clock(
    stores: Stores, columns: Columns, reason: TakeoverReason
) -> None:
    """The bidder may think what it likes."""
    seen = stores.put(**columns)
    outcome = stores.build().try_acquire(seen, holder_id="me", reason=reason)
    assert outcome == HeldByOther(tenant_key="acme")
    assert stores.row() == seen


def test_rescue_that_is_turned_off_takes_nothing(stores: Stores) -> None:
    """Even if it is asked for."""
    seen = stores.put(**OWED)
    store = stores.build(rescue_after_ms=None)
    assert isinstance(store.try_acquire(seen, holder_id="me", reason=TakeoverReason.RESCUE), HeldByOther)


@pytest.mark.parametrize("column", ["holder_id", "epoch", "expires_at_ms", "progressed_at_ms"])
def test_acquire_refuses_a_row_that_has_moved(stores: Stores, column: str) -> None:
    """Whatever moved: a renewal, a claim, a takeover."""
    actual = stores.put()
    stale = {
        "holder_id": replace(actual, holder_id="third"),
        "epoch": replace(actual, epoch=actual.epoch - 1),
        "expires_at_ms": replace(actual, expires_at_ms=actual.expires_at_ms - 1),
        "progressed_at_ms": replace(actual, progressed_at_ms=actual.progressed_at_ms - 1),
    }
    outcome = stores.build().try_acquire(stale[column], holder_id="me", reason=TakeoverReason.UNCHANGED)
    assert outcome == HeldByOther(tenant_key="acme")
    assert stores.row() == actual


def test_rescue_refuses_work_that_is_no_longer_the_one_owed(stores: Stores) -> None:
    """The holder did it meanwhile, and owes other work now."""
    seen = stores.put(**OWED)
    stale = replace(seen, owed_since_ms=NOW_MS - 5 * RESCUE_MS)
    assert isinstance(stores.build().try_acquire(stale, holder_id="me", reason=TakeoverReason.RESCUE), HeldByOther)


def test_acquire_of_a_row_that_is_gone_says_no_and_the_next_reading_brings_it_back(stores: Stores) -> None:
    """Somebody emptied the table; the new row starts at epoch 0."""
    seen = stores.put(**FREE)
    SchedulerLease.objects.using(stores.alias).all().delete()
    store = stores.build()
    assert isinstance(store.try_acquire(seen, holder_id="me", reason=TakeoverReason.FREE), HeldByOther)
    assert store.read(["acme"]).leases["acme"].epoch == 0


def test_renewal_moves_the_end_and_nothing_else(stores: Stores) -> None:
    """Heartbeats are no progress: a wedged holder must not look busy by renewing."""
    seen = stores.put(owed_since_ms=NOW_MS - 500)
    assert stores.build().renew(holder_id="other", epochs={"acme": 7}) == renewal(renewed=["acme"])
    assert stores.row() == replace(seen, expires_at_ms=NOW_MS + TTL_MS)


def test_renewal_of_stale_terms_changes_nothing(stores: Stores) -> None:
    """I10: another holder, an older epoch, a row that is gone; beside them a good term is renewed."""
    other = stores.put("other's", holder_id="third")
    newer = stores.put("newer", epoch=8)
    stores.put("good")
    epochs = {"other's": 7, "newer": 7, "gone": 7, "good": 7}
    outcome = stores.build().renew(holder_id="other", epochs=epochs)
    assert outcome == renewal(renewed=["good"], lost=["other's", "newer", "gone"])
    assert (stores.row("other's"), stores.row("newer")) == (other, newer)


def test_renewal_leaves_alone_what_it_does_not_name(stores: Stores) -> None:
    """A lease of ours that is not to be renewed, since its loop does not turn, runs out."""
    left_out = stores.put("left-out")
    stores.put("named")
    stores.build().renew(holder_id="other", epochs={"named": 7})
    assert stores.row("left-out") == left_out


def test_nothing_to_renew_is_nothing_to_do(stores: Stores) -> None:
    """No statement with an empty list."""
    assert stores.build().renew(holder_id="other", epochs={}) == renewal()


def test_two_thousand_terms_are_renewed_together(stores: Stores) -> None:
    """And one that was lost is told apart."""
    keys = [f"tenant-{number:04}" for number in range(2000)]
    stores.build().read(keys)
    SchedulerLease.objects.using(stores.alias).update(holder_id="other", epoch=7, expires_at_ms=NOW_MS + 1)
    stores.put("tenant-1234", epoch=8)
    outcome = stores.build().renew(holder_id="other", epochs=dict.fromkeys(keys, 7))
    assert outcome == renewal(renewed=[key for key in keys if key != "tenant-1234"], lost=["tenant-1234"])
    renewed = SchedulerLease.objects.using(stores.alias).filter(expires_at_ms=NOW_MS + TTL_MS)
    assert renewed.count() == 1999


def test_release_frees_the_lease_and_keeps_the_epoch(stores: Stores) -> None:
    """The next acquire moves it; what is owed stays owed, what was asked for is done."""
    seen = stores.put(owed_since_ms=NOW_MS)
    assert stores.build().request_hand_over(seen)
    assert stores.build().release(tenant_key="acme", holder_id="other", epoch=7) is True
    assert stores.row() == replace(seen, holder_id="", expires_at_ms=0)


@pytest.mark.parametrize(("holder_id", "epoch"), [("me", 7), ("other", 6), ("other", 8), ("", 7)])
def test_release_of_another_term_changes_nothing(stores: Stores, holder_id: str, epoch: int) -> None:
    """I10: a late message of an old term."""
    seen = stores.put()
    assert stores.build().release(tenant_key="acme", holder_id=holder_id, epoch=epoch) is False
    assert stores.row() == seen


def test_request_to_hand_over_is_for_the_holder_to_see(stores: Stores) -> None:
    """By the database's clock; it changes nothing else, and the next term knows nothing of it."""
    seen = stores.put()
    assert stores.build().request_hand_over(seen) is True
    asked = replace(seen, hand_over_requested_at_ms=NOW_MS)
    assert stores.row() == asked
    taken = stores.build(seen.expires_at_ms).try_acquire(asked, holder_id="me", reason=TakeoverReason.EXPIRED)
    assert isinstance(taken, Acquired)
    assert stores.row().hand_over_requested_at_ms is None


@pytest.mark.parametrize("now", [FREE, EXPIRED, {"epoch": 8}, {"holder_id": "me"}], ids=str)
def test_request_to_hand_over_finds_nobody(stores: Stores, now: Columns) -> None:
    """I10: the term that was seen is over, or its lease has run out."""
    seen = stores.put()
    there = stores.put(**now)
    assert stores.build().request_hand_over(seen) is False
    assert stores.build().request_hand_over(replace(there, epoch=9)) is False
    assert stores.row() == there


def test_request_to_hand_over_what_nobody_holds(stores: Stores) -> None:
    """The row exactly as it is, and free."""
    assert stores.build().request_hand_over(stores.put(**FREE)) is False


def test_process_reports_itself_and_is_forgotten(stores: Stores) -> None:
    """By the database's clock; its start stays when it reports again."""
    stores.build(NOW_MS).report_process(REPORT)
    stores.build(NOW_MS + 5).report_process(replace(REPORT, draining=True, tenants=[]))
    process = SchedulerProcess.objects.using(stores.alias).get()
    assert (process.holder_id, process.host, process.pid, process.version) == ("me", "web-1", 42, "0.1")
    assert (process.started_at_ms, process.last_seen_at_ms) == (NOW_MS, NOW_MS + 5)
    assert (process.draining, process.tenants) == (True, [])
    stores.build().forget_process(holder_id="me")
    assert not SchedulerProcess.objects.using(stores.alias).exists()


def test_first_report_shows_everything(stores: Stores) -> None:
    """Nothing waits for the second one."""
    stores.build().report_process(REPORT)
    process = SchedulerProcess.objects.using(stores.alias).get()
    assert (process.draining, process.tenants, process.last_seen_at_ms) == (False, ["acme", "umbra"], NOW_MS)


def test_processes_long_gone_are_swept(stores: Stores) -> None:
    """A killed process forgets nothing by itself; one that was seen lately is kept."""
    for holder_id, seen_at_ms in (("old", NOW_MS - 10 * TTL_MS - 1), ("recent", NOW_MS - 10 * TTL_MS), ("me", NOW_MS)):
        stores.build(seen_at_ms).report_process(replace(REPORT, holder_id=holder_id))
    stores.build().forget_process(holder_id="me")
    left = SchedulerProcess.objects.using(stores.alias).values_list("holder_id", flat=True)
    assert set(left) == {"recent"}


def test_hand_over_names_the_successor_and_moves_the_epoch(stores: Stores) -> None:
    """The times start anew, what is owed stays owed, and the giver's guard matches nothing from here on."""
    seen = stores.put(owed_since_ms=NOW_MS - 3, hand_over_requested_at_ms=1)
    store = stores.build()
    store.report_process(replace(REPORT, holder_id="next"))
    assert store.hand_over(tenant_key="acme", holder_id="other", epoch=7, successor_id="next") is True
    assert stores.row() == replace(
        seen,
        holder_id="next",
        epoch=8,
        acquired_at_ms=NOW_MS,
        expires_at_ms=NOW_MS + TTL_MS,
        progressed_at_ms=NOW_MS,
        hand_over_requested_at_ms=None,
    )
    assert store.renew(holder_id="other", epochs={"acme": 7}) == renewal(lost=["acme"])
    assert store.renew(holder_id="next", epochs={"acme": 8}) == renewal(renewed=["acme"])


@pytest.mark.parametrize(("holder_id", "epoch"), [("me", 7), ("other", 6), ("other", 8), ("", 7)])
def test_hand_over_of_another_term_changes_nothing(stores: Stores, holder_id: str, epoch: int) -> None:
    """I10: a late message of an old term."""
    seen = stores.put()
    store = stores.build()
    store.report_process(replace(REPORT, holder_id="next"))
    assert store.hand_over(tenant_key="acme", holder_id=holder_id, epoch=epoch, successor_id="next") is False
    assert stores.row() == seen


@pytest.mark.parametrize(
    ("seen_at_ms", "draining", "given"),
    [(NOW_MS - TTL_MS, False, True), (NOW_MS - TTL_MS - 1, False, False), (NOW_MS, True, False)],
)
def test_hand_over_wants_a_successor_that_is_there(
    stores: Stores,
    seen_at_ms: int,
    draining: bool,  # noqa: FBT001 - a column of the table
    given: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """Seen within LEASE_TTL, and not on its way down."""
    stores.put()
    stores.build(seen_at_ms).report_process(replace(REPORT, holder_id="next", draining=draining))
    assert stores.build().hand_over(tenant_key="acme", holder_id="other", epoch=7, successor_id="next") is given
    assert stores.row().holder_id == ("next" if given else "other")


def test_hand_over_to_a_process_that_has_left_changes_nothing(stores: Stores) -> None:
    """It took its row with it."""
    seen = stores.put()
    assert stores.build().hand_over(tenant_key="acme", holder_id="other", epoch=7, successor_id="next") is False
    assert stores.row() == seen


def test_processes_are_read_as_they_reported_themselves(stores: Stores) -> None:
    """Dead ones included: it is for the reader to judge."""
    stores.build(NOW_MS - 1).report_process(REPORT)
    stores.build(NOW_MS).report_process(replace(REPORT, holder_id="all", draining=True, tenants=[]))
    assert sorted(stores.build().read_processes(), key=lambda process: process.last_seen_at_ms) == [
        SeenProcess(holder_id="me", last_seen_at_ms=NOW_MS - 1, draining=False, tenants=frozenset({"acme", "umbra"})),
        SeenProcess(holder_id="all", last_seen_at_ms=NOW_MS, draining=True, tenants=frozenset()),
    ]
