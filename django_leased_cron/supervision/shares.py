"""A process's share of the tenants: giving away what another process should have."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from django_leased_cron.core.events import Emit, LeaseGiven
from django_leased_cron.core.lease import LeaseReading, LeaseRow, LeaseStore
from django_leased_cron.core.membership import Members, MembershipObserver
from django_leased_cron.core.outbox import TermKey
from django_leased_cron.core.placement import DatabaseView, Move, find_moves, is_taken_up
from django_leased_cron.supervision.seat import TenantSeat


class FairShare:
    """What the standbys of one process know together: shares are counted over all of its databases."""

    def __init__(self, *, holder_id: str, lease_ttl_ms: int, count_tenants: Callable[[], int]) -> None:
        """Begin without having seen anything.

        Args:
            count_tenants: returns how many the process takes part for; of one, none is ever given away, and nobody's
                share is looked at.
        """
        self._count_tenants = count_tenants
        self.holder_id = holder_id
        self.lease_ttl_ms = lease_ttl_ms
        self._lock = threading.Lock()
        self._views: dict[str, DatabaseView] = {}
        self._under_way: dict[str, str] = {}

    @property
    def is_of_interest(self) -> bool:
        return self._count_tenants() > 1

    def choose(self, alias: str, view: DatabaseView, *, settled: Sequence[str]) -> Sequence[Move]:
        """Take in a reading of one database and return the moves in it, which are under way from now on.

        Args:
            settled: tenants whose moves came to an end, one way or another.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offered:
    """A term whose seat was told to give it away."""

    epoch: int
    successor_id: str


class ShareGiver:
    """Gives away, of the leases of one database, what is more than the fair share."""

    def __init__(self, store: LeaseStore, fair_share: FairShare, *, emit: Emit) -> None:
        self._store = store
        self._fair_share = fair_share
        self._emit = emit
        self._observer = MembershipObserver(holder_id=fair_share.holder_id, lease_ttl_ms=fair_share.lease_ttl_ms)
        self._offers: dict[str, _Offered] = {}
        self._given: dict[str, int] = {}
        self.members: Members = {}
        """Who counts on a share of these leases; empty where there is nothing to share."""

    @property
    def is_giving(self) -> bool:
        """Whether moves are under way, so that the next reading should show how far they have come."""
        return bool(self._offers) and self._fair_share.is_of_interest

    def look(self, reading: LeaseReading, seats: Mapping[str, TenantSeat]) -> None:
        """Take in a reading of all leases, see who else is there, and offer what is to be given; raises ``StoreError``.

        Each seat gives between two of its batches, in its own time.
        """
        if not self._fair_share.is_of_interest:
            self.members = {}
            return
        processes = self._store.read_processes()
        staying = {key: row for key, row in reading.leases.items() if not seats[key].is_leaving}
        settled = [key for key, offered in self._offers.items() if self._is_settled(offered, staying.get(key), seats)]
        for tenant_key in settled:
            self._settle(tenant_key, staying.get(tenant_key), now_ms=reading.now_ms)
        self.members = self._observer.observe(reading, processes)
        view = DatabaseView(now_ms=reading.now_ms, leases=staying, members=self.members)
        for move in self._fair_share.choose(self._store.alias, view, settled=settled):
            epoch = staying[move.tenant_key].epoch
            self._offers[move.tenant_key] = _Offered(epoch=epoch, successor_id=move.successor_id)
            seats[move.tenant_key].offer(epoch, partial(self._hand_over, successor_id=move.successor_id))

    def _is_settled(self, offered: _Offered, row: LeaseRow | None, seats: Mapping[str, TenantSeat]) -> bool:
        """Return whether the successor has taken up what was offered, or never will: something was in flight, say."""
        if row is None:
            return True
        if row.epoch > offered.epoch:
            is_successors = row.holder_id == offered.successor_id
            return not is_successors or is_taken_up(row, lease_ttl_ms=self._fair_share.lease_ttl_ms)
        seat = seats[row.tenant_key]
        return not seat.is_offering(offered.epoch) and (term := seat.term) is not None and term.epoch == offered.epoch

    def _settle(self, tenant_key: str, row: LeaseRow | None, *, now_ms: int) -> None:
        offered = self._offers.pop(tenant_key)
        was_given = self._given.pop(tenant_key, 0) == offered.epoch
        if was_given and row is not None and row.holder_id != offered.successor_id:
            self._observer.note_loss(offered.successor_id, at_ms=now_ms)
            self._observer.note_refusal(offered.successor_id, tenant_key)

    def _hand_over(self, term: TermKey, *, successor_id: str) -> bool:
        given = self._store.hand_over(
            tenant_key=term.tenant_key, holder_id=term.holder_id, epoch=term.epoch, successor_id=successor_id
        )
        if given:
            self._given[term.tenant_key] = term.epoch
            self._emit(LeaseGiven(tenant_key=term.tenant_key, epoch=term.epoch + 1, successor_id=successor_id))
        return given
