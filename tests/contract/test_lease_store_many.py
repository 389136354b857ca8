"""What every lease store does for many tenants at once: few statements, small answers."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from django_leased_cron.core.lease import Acquired, Bid, LeaseRow, TakeoverReason
from django_leased_cron.database.session import Session
from django_leased_cron.models import SchedulerLease
from tests.contract.lease_stores import NOW_MS, RESCUE_MS, TTL_MS, Stores, run_at_once
from tests.contract.test_lease_store_races import lock_row, with_row_locks

Columns = dict[str, Any]
WHY: dict[TakeoverReason, Columns] = {
    TakeoverReason.FREE: {"holder_id": "", "expires_at_ms": 0},
    TakeoverReason.EXPIRED: {"expires_at_ms": NOW_MS},
    TakeoverReason.UNCHANGED: {"expires_at_ms": NOW_MS + 86_400_000},
    TakeoverReason.RESCUE: {"owed_since_ms": NOW_MS - RESCUE_MS, "progressed_at_ms": NOW_MS - RESCUE_MS},
}
TOO_LATE: dict[TakeoverReason, Columns] = {
    TakeoverReason.FREE: {"holder_id": "other"},
    TakeoverReason.EXPIRED: {"expires_at_ms": NOW_MS + 1},
    TakeoverReason.RESCUE: {"owed_since_ms": NOW_MS - RESCUE_MS + 1, "progressed_at_ms": NOW_MS - RESCUE_MS},
}


def put_all(stores: Stores, keys: Iterable[str], **columns: Any) -> list[Bid]:
    """Have free leases, unless said otherwise; return a bid for each."""
    free = WHY[TakeoverReason.FREE]
    return [Bid(row=stores.put(key, **free | columns), reason=TakeoverReason.FREE) for key in keys]


def test_leases_are_taken_together_each_for_its_own_reason(stores: Stores) -> None:
    """One more epoch for each; the caller's order is kept."""
    rows = {reason: stores.put(reason, epoch=number, **WHY[reason]) for number, reason in enumerate(WHY)}
    bids = [Bid(row=row, reason=reason) for reason, row in rows.items()]
    assert stores.build().try_acquire_many(bids, holder_id="me") == [
        Acquired(tenant_key=reason, epoch=row.epoch + 1, now_ms=NOW_MS) for reason, row in rows.items()
    ]
    for reason, row in rows.items():
        assert stores.row(reason) == LeaseRow(
            tenant_key=reason,
            holder_id="me",
            epoch=row.epoch + 1,
            acquired_at_ms=NOW_MS,
            expires_at_ms=NOW_MS + TTL_MS,
            progressed_at_ms=NOW_MS,
            owed_since_ms=row.owed_since_ms,
        )


@pytest.mark.parametrize("reason", TOO_LATE)
def test_reason_that_no_longer_holds_leaves_that_lease_alone(stores: Stores, reason: TakeoverReason) -> None:
    """Judged once more by the database's clock; the others are taken."""
    seen = stores.put("umbra", **TOO_LATE[reason])
    bids = [*put_all(stores, ["acme"]), Bid(row=seen, reason=reason)]
    assert [taken.tenant_key for taken in stores.build().try_acquire_many(bids, holder_id="me")] == ["acme"]
    assert stores.row("umbra") == seen


@pytest.mark.parametrize(
    "columns", [{"holder_id": "third"}, {"epoch": 8}, {"expires_at_ms": 1}, {"progressed_at_ms": NOW_MS - 1}]
)
def test_row_that_has_moved_since_it_was_read_is_not_taken(stores: Stores, columns: Columns) -> None:
    """Somebody renewed, claimed or took it first."""
    bids = put_all(stores, ["acme", "umbra"])
    SchedulerLease.objects.using(stores.alias).filter(tenant_key="umbra").update(**columns)
    moved = stores.row("umbra")
    assert [taken.tenant_key for taken in stores.build().try_acquire_many(bids, holder_id="me")] == ["acme"]
    assert stores.row("umbra") == moved


def test_bidders_for_many_leases_share_them_without_taking_one_twice(stores: Stores) -> None:
    """Each lease has one winner, each epoch grew by one."""
    keys = [f"tenant-{number:03}" for number in range(100)]
    bids = put_all(stores, keys)
    bidders = [stores.build() for _ in range(4)]
    outcomes = run_at_once(
        [partial(store.try_acquire_many, bids, holder_id=f"bidder-{n}") for n, store in enumerate(bidders)]
    )
    won: list[str] = []
    for number, outcome in enumerate(outcomes):
        assert isinstance(outcome, list), outcome
        won += [taken.tenant_key for taken in outcome]
        assert all(stores.row(taken.tenant_key).holder_id == f"bidder-{number}" for taken in outcome)
    assert len(won) == len(set(won))
    assert {stores.row(key).epoch for key in won} == {8}
    assert all(stores.row(key).epoch == 7 for key in set(keys) - set(won))


@with_row_locks
def test_locked_row_keeps_no_other_lease_from_being_taken(stores: Stores) -> None:
    """Nor does it make the statement wait: that row is tried again at the next poll."""
    bids = put_all(stores, ["acme", "globex", "umbra"])
    taken: list[Acquired] = []
    bidder = stores.build()
    thread = threading.Thread(target=lambda: taken.extend(bidder.try_acquire_many(bids, holder_id="me")))
    with transaction.atomic(using=stores.alias):
        lock_row(stores, "globex")
        thread.start()
        thread.join()
    assert [outcome.tenant_key for outcome in taken] == ["acme", "umbra"]
    assert stores.row("globex").holder_id == ""


WITHIN_MS = 500
NOTABLE: dict[str, Columns] = {
    "free": {"holder_id": ""},
    "expired": {"expires_at_ms": NOW_MS},
    "expires soon": {"expires_at_ms": NOW_MS + WITHIN_MS},
    "owed": {"owed_since_ms": NOW_MS - RESCUE_MS},
    "owed for almost so long": {"owed_since_ms": NOW_MS - RESCUE_MS + WITHIN_MS},
    "taken lately": {"acquired_at_ms": NOW_MS - 4000},
    "asked to hand over": {"hand_over_requested_at_ms": NOW_MS - 1},
    "beyond what a holder writes": {"expires_at_ms": NOW_MS + 3 * TTL_MS},
}


@pytest.mark.parametrize("why", NOTABLE)
def test_lease_with_a_reason_to_look_at_is_notable(stores: Stores, why: str) -> None:
    """As it is, with the last progress of its holder on any of its leases, those that are not notable too."""
    stores.put("quiet", **{"holder_id": "other", "progressed_at_ms": NOW_MS - 77} | {"owed_since_ms": NOW_MS + 1})
    stores.put(why, **{"owed_since_ms": None} | NOTABLE[why])
    reading = stores.build().read_notable(within_ms=WITHIN_MS)
    row = stores.row(why)
    assert reading.now_ms == NOW_MS
    assert reading.leases == {why: row}
    expected = NOW_MS - 77 if row.holder_id == "other" else row.progressed_at_ms
    assert reading.progress == {row.holder_id: expected}


def test_nothing_notable_is_an_answer_too(stores: Stores) -> None:
    """The clock, and no lease."""
    stores.put("quiet")
    reading = stores.build().read_notable(within_ms=WITHIN_MS)
    assert (reading.now_ms, reading.leases, reading.progress) == (NOW_MS, {}, {})


def test_many_leases_are_renewed_by_two_statements(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock, and one UPDATE for all: their number does not grow with that of the leases."""
    keys = [f"tenant-{number:03}" for number in range(50)]
    store = stores.build()
    store.try_acquire_many(put_all(stores, keys), holder_id="me")
    said: list[str] = []
    fetch = Session.fetch

    def record(self: Session, sql: str, *args: Any, **kwargs: Any) -> Any:
        said.append(sql.split()[0])
        return fetch(self, sql, *args, **kwargs)

    monkeypatch.setattr(Session, "fetch", record)
    renewal = store.renew(holder_id="me", epochs=dict.fromkeys(keys, 8))
    assert renewal.renewed == set(keys)
    assert [word for word in said if word not in {"BEGIN", "START", "SET", "COMMIT"}] == ["SELECT", "UPDATE"]
