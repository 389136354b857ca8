"""What every lease store does while others act on the same rows, each on a connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import transaction
from django.db.models import F

from django_leased_cron.core.lease import (
    Acquired,
    HeldByOther,
    LeaseReading,
    LeaseStore,
    ProcessReport,
    Renewal,
    TakeoverReason,
)
from django_leased_cron.exceptions import DatabaseUnavailableError
from django_leased_cron.models import SchedulerLease
from tests.contract.lease_stores import NOW_MS, RESCUE_MS, Stores, renewal, run_at_once

BIDDERS = 50
REPORT = ProcessReport(holder_id="next", host="web-1", pid=42, version="0.1", draining=False, tenants=[])
with_row_locks = pytest.mark.parametrize("database_alias", ["postgres", "mysql"], indirect=True)


def lock_row(stores: Stores, tenant_key: str = "acme", **changes: Any) -> None:
    """Lock a row in the test's own transaction, the way a claim does: by changing it."""
    rows = SchedulerLease.objects.using(stores.alias).filter(tenant_key=tenant_key)
    assert rows.update(**changes or {"epoch": F("epoch")}) == 1


def test_fifty_bidders_have_one_winner_in_each_round(stores: Stores) -> None:
    """One round for each reason; the epoch grows by one each time, and nobody else believes to have won."""
    rounds: dict[TakeoverReason, dict[str, Any]] = {
        TakeoverReason.FREE: {"holder_id": ""},
        TakeoverReason.EXPIRED: {"expires_at_ms": NOW_MS - 1},
        TakeoverReason.UNCHANGED: {"expires_at_ms": NOW_MS + 86_400_000},
        TakeoverReason.RESCUE: {"owed_since_ms": NOW_MS - RESCUE_MS, "progressed_at_ms": NOW_MS - RESCUE_MS},
    }
    bidders = [stores.build() for _ in range(BIDDERS)]
    for epoch, (reason, columns) in enumerate(rounds.items()):
        seen = stores.put(epoch=epoch, **columns)
        outcomes = run_at_once(
            [
                partial(store.try_acquire, seen, holder_id=f"bidder-{number}", reason=reason)
                for number, store in enumerate(bidders)
            ]
        )
        winners = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Acquired)]
        assert len(winners) == 1
        # Waiting too long for one's turn is not knowing, which is no answer either.
        assert all(isinstance(outcome, Acquired | HeldByOther | DatabaseUnavailableError) for outcome in outcomes)
        row = stores.row()
        assert (row.holder_id, row.epoch) == (f"bidder-{winners[0]}", epoch + 1)


def test_hand_over_and_takeover_at_once_have_one_winner(stores: Stores) -> None:
    """The holder gives while somebody takes: the epoch grows by one, and what both were told is true."""
    giver, bidder = stores.build(), stores.build()
    giver.report_process(REPORT)
    for epoch in range(20):
        seen = stores.put(epoch=epoch, expires_at_ms=NOW_MS)
        give = partial(giver.hand_over, tenant_key="acme", holder_id="other", epoch=epoch, successor_id="next")
        take = partial(bidder.try_acquire, seen, holder_id="me", reason=TakeoverReason.EXPIRED)
        acts: list[Callable[[], object]] = [give, take]
        given, taken = run_at_once(acts)
        row = stores.row()
        assert row.epoch == epoch + 1
        assert given is (row.holder_id == "next")
        assert isinstance(taken, Acquired) is (row.holder_id == "me")


def test_processes_that_start_together_create_each_row_once(stores: Stores) -> None:
    """All find the table empty; all read the same rows."""
    keys = [f"tenant-{number}" for number in range(20)]
    outcomes = run_at_once([partial(stores.build().read, keys) for _ in range(10)])
    for outcome in outcomes:
        assert isinstance(outcome, LeaseReading)
        assert set(outcome.leases) == set(keys)
    assert SchedulerLease.objects.using(stores.alias).count() == len(keys)


def test_locked_row_is_not_knowing(stores: Stores) -> None:
    """A row that stays locked is an error after a bounded wait, not somebody else's lease."""
    seen = stores.put()
    store = stores.build()
    with transaction.atomic(using=stores.alias):
        lock_row(stores)
        with pytest.raises(DatabaseUnavailableError, match=stores.alias):
            store.try_acquire(seen, holder_id="me", reason=TakeoverReason.UNCHANGED)
    assert isinstance(store.try_acquire(seen, holder_id="me", reason=TakeoverReason.UNCHANGED), Acquired)


def test_takeover_that_waited_for_a_renewal_does_not_take_what_was_renewed(stores: Stores) -> None:
    """The row had expired when the bid was sent; the renewal had it locked, and committed first."""
    seen = stores.put(expires_at_ms=NOW_MS)
    store = stores.build()
    outcomes: list[object] = []
    bid = threading.Thread(
        target=lambda: outcomes.append(store.try_acquire(seen, holder_id="me", reason=TakeoverReason.EXPIRED))
    )
    with transaction.atomic(using=stores.alias):
        lock_row(stores, expires_at_ms=NOW_MS + 1)
        bid.start()
        bid.join(timeout=0.05)
        assert bid.is_alive()
    bid.join()
    assert outcomes == [HeldByOther(tenant_key="acme")]
    assert stores.row().holder_id == "other"


def test_request_that_waited_for_a_takeover_does_not_ask_the_new_holder(stores: Stores) -> None:
    """Of two people who ask at once, neither moves the lease a second time."""
    seen = stores.put()
    store = stores.build()
    outcomes: list[object] = []
    request = threading.Thread(target=lambda: outcomes.append(store.request_hand_over(seen)))
    with transaction.atomic(using=stores.alias):
        lock_row(stores, holder_id="me", epoch=8)
        request.start()
        request.join(timeout=0.05)
        assert request.is_alive()
    request.join()
    assert outcomes == [False]
    assert stores.row().hand_over_requested_at_ms is None


def test_bulk_takeover_racing_a_renewal_steals_nothing(stores: Stores) -> None:
    """Whatever the order, no lease is both renewed and taken, and the rows say the same as the answers."""
    keys = [f"tenant-{number:02}" for number in range(40)]
    holder, bidder = stores.build(), stores.build()
    bidder.read(keys)
    for _ in range(4):
        SchedulerLease.objects.using(stores.alias).update(holder_id="other", epoch=7, expires_at_ms=NOW_MS)
        acts: list[Callable[[], Renewal | frozenset[str]]] = [
            partial(_take_over, bidder, keys),
            partial(holder.renew, holder_id="other", epochs=dict.fromkeys(keys, 7)),
        ]
        taken, outcome = run_at_once(acts)
        assert isinstance(taken, frozenset)
        assert isinstance(outcome, Renewal)
        assert taken.isdisjoint(outcome.renewed)
        assert taken <= outcome.lost | outcome.busy
        held = SchedulerLease.objects.using(stores.alias).filter(holder_id="me").values_list("tenant_key", flat=True)
        assert set(held) == taken


def _take_over(store: LeaseStore, keys: list[str]) -> frozenset[str]:
    leases = list(store.read(keys).leases.values())
    outcomes = [store.try_acquire(row, holder_id="me", reason=TakeoverReason.EXPIRED) for row in reversed(leases)]
    return frozenset(outcome.tenant_key for outcome in outcomes if isinstance(outcome, Acquired))


@with_row_locks
def test_busy_row_is_neither_renewed_nor_lost_nor_waited_for(stores: Stores) -> None:
    """It is being renewed by its own claim, or taken; all others are renewed meanwhile."""
    for tenant_key in ("acme", "busy", "zeta", "lost"):
        stores.put(tenant_key)
    stores.put("lost", epoch=8)
    epochs = dict.fromkeys(("acme", "busy", "zeta", "lost"), 7)
    with transaction.atomic(using=stores.alias):
        lock_row(stores, "busy")
        outcome = stores.build().renew(holder_id="other", epochs=epochs)  # waiting would be an error here
    assert outcome == renewal(renewed=["acme", "zeta"], busy=["busy"], lost=["lost"])


@with_row_locks
def test_renewal_of_one_holder_is_not_held_up_by_anothers_rows(stores: Stores) -> None:
    """Nor does it lock them: not even for the moment in which the other's renewal would skip them."""
    keys = {holder_id: [f"{number:03}-{holder_id}" for number in range(600)] for holder_id in ("one", "two")}
    stores.build().read([*keys["one"], *keys["two"]])
    for holder_id in keys:
        leases = SchedulerLease.objects.using(stores.alias).filter(tenant_key__endswith=holder_id)
        leases.update(holder_id=holder_id, epoch=1)
    renewals = [
        partial(stores.build().renew, holder_id=holder_id, epochs=dict.fromkeys(keys[holder_id], 1))
        for holder_id in keys
    ]
    for _ in range(20):
        for outcome in run_at_once(renewals):
            assert isinstance(outcome, Renewal)
            assert not outcome.busy


@pytest.mark.parametrize("database_alias", ["sqlite"], indirect=True)
def test_writer_that_stays_holds_up_everybody_on_sqlite(stores: Stores) -> None:
    """One writer at a time: a renewal does not know how it stands, but a reading works."""
    seen = stores.put()
    store = stores.build()
    with transaction.atomic(using=stores.alias):
        lock_row(stores)
        with pytest.raises(DatabaseUnavailableError, match="locked"):
            store.renew(holder_id="other", epochs={"acme": 7})
        assert store.read(["acme"]).leases["acme"] == seen
