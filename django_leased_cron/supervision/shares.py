"""A process's share of the tenants: giving away what another process should have."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial

from django_leased_cron.core.events import Emit, LeaseGiven
from django_leased_cron.core.lease import LeaseReading, LeaseRow, LeaseStore
from django_leased_cron.core.membership import Members, MembershipObserver
from django_leased_cron.core.outbox import TermKey
from django_leased_cron.core.placement import DatabaseView, Move, find_moves
from django_leased_cron.supervision.seat import TenantSeat


class FairShare:
    """What the standbys of one process know together: shares are counted over all of its databases."""

    def __init__(self, *, holder_id: str, lease_ttl_ms: int, tenants: int) -> None:
        """Begin without having seen anything.

        Args:
            tenants: how many the process schedules; of one, none is ever given away, and nobody's share is looked at.
        """
        self.is_of_interest = tenants > 1
        self.holder_id = holder_id
        self.lease_ttl_ms = lease_ttl_ms
        self._lock = threading.Lock()
        self._views: dict[str, DatabaseView] = {}
        self._under_way: dict[str, str] = {}

    def choose(self, alias: str, view: DatabaseView, *, settled: Sequence[str]) -> Sequence[Move]:
        """Take in a reading of one database and return the moves in it, which are under way from now on.

        Args:
            settled: tenants whose moves came to an end, one way or another, and show in the reading.
        """
        with self._lock:
            for tenant_key in settled:
                self._under_way.pop(tenant_key, None)
            self._views[alias] = view
            found = find_moves(
                self._views.values(),
                giver_id=self.holder_id,
                under_way=self._under_way,
                lease_ttl_ms=self.lease_ttl_ms,
            )
            moves = [move for move in found if move.tenant_key in view.leases]
            self._under_way |= {move.tenant_key: move.successor_id for move in moves}
            return moves


class ShareGiver:
    """Gives away, of the leases of one database, what is more than the fair share."""

    def __init__(self, store: LeaseStore, fair_share: FairShare, *, emit: Emit) -> None:
        self._store = store
        self._fair_share = fair_share
        self._emit = emit
        self._observer = MembershipObserver(holder_id=fair_share.holder_id, lease_ttl_ms=fair_share.lease_ttl_ms)
        self._offers: dict[str, tuple[int, str]] = {}
        self.members: Members = {}
        """Who counts on a share of these leases; empty where there is nothing to share."""

    def look(self, reading: LeaseReading, seats: Mapping[str, TenantSeat]) -> None:
        """Take in a reading, see who else is there, and offer what is to be given; raises ``StoreError``.

        Each seat gives between two of its batches, in its own time.
        """
        if not self._fair_share.is_of_interest:
            return
        settled = [key for key, offer in self._offers.items() if _is_settled(reading.leases[key], seats[key], offer[0])]
        for tenant_key in settled:
            epoch, successor_id = self._offers.pop(tenant_key)
            row = reading.leases[tenant_key]
            if row.epoch > epoch and row.holder_id != successor_id:
                self._observer.note_loss(successor_id, at_ms=reading.now_ms)
        self.members = self._observer.observe(reading, self._store.read_processes())
        view = DatabaseView(now_ms=reading.now_ms, leases=reading.leases, members=self.members)
        for move in self._fair_share.choose(self._store.alias, view, settled=settled):
            self._offers[move.tenant_key] = (reading.leases[move.tenant_key].epoch, move.successor_id)
            seats[move.tenant_key].offer(partial(self._hand_over, successor_id=move.successor_id))

    def _hand_over(self, term: TermKey, *, successor_id: str) -> bool:
        given = self._store.hand_over(
            tenant_key=term.tenant_key, holder_id=term.holder_id, epoch=term.epoch, successor_id=successor_id
        )
        if given:
            self._emit(LeaseGiven(tenant_key=term.tenant_key, epoch=term.epoch + 1, successor_id=successor_id))
        return given


def _is_settled(row: LeaseRow, seat: TenantSeat, epoch: int) -> bool:
    """Return whether a reading shows what came of an offer, or it lapsed: something was in flight, say."""
    return row.epoch > epoch or (not seat.is_offering and (term := seat.term) is not None and term.epoch == epoch)
