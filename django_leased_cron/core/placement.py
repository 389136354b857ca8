"""Which process should have which tenants: the first choice of each lease, and the moves that even out.

The rules:

* A lease without a live holder is for whoever comes first, however many it has already: it never waits for shares.
  Only the order of the bids knows them: a process bids first for the tenants whose first choice it is.
* First choices are by rendezvous hashing over the processes that may take a tenant: each process draws a number for
  each tenant, and the highest one wins. A process that joins or leaves changes only the choices it wins or won.
* A tenant moves from one process to another only if the first has more tenants than the other by at least two, and by
  at least a tenth of the mean share (``MOST_UNEVEN``). So each move makes the shares more even, none is worth undoing,
  and one tenant never moves between two idle processes.
* A process is given no more than ``FEW`` tenants that it has not taken up: one that is dead, and does not look it yet,
  keeps few waiting.
* Who gives what to whom is planned for all processes, from what all of them read, and each carries out its own part:
  two that give at once do not fill the same gap.

Not promised: that two processes read the same. A plan made of an old reading moves a tenant too many, and the next one
moves it back; the store carries out only what the giver still holds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from django_leased_cron.core.lease import LeaseRow
from django_leased_cron.core.membership import Members

FEW: Final = 4
MOST_UNEVEN: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseView:
    """The leases of one database, and the processes that count on their shares of them."""

    now_ms: int
    leases: Mapping[str, LeaseRow]
    members: Members


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One lease that its holder is to give to another process."""

    tenant_key: str
    successor_id: str


def order_bids(tenant_keys: Iterable[str], members: Members, *, holder_id: str) -> list[str]:
    """Return in which order a process bids for these leases: those that it is the first choice of come first."""
    return sorted(tenant_keys, key=lambda tenant_key: (_find_rank(tenant_key, members, holder_id), tenant_key))


def is_first_choice(tenant_key: str, members: Members, *, holder_id: str) -> bool:
    """Return whether no other process comes before this one, should the lease be free."""
    return _find_rank(tenant_key, members, holder_id) == 0


def is_taken_up(row: LeaseRow, *, lease_ttl_ms: int) -> bool:
    """Return whether the holder has acted on its term, as one does at once: it renews, or claims, be it nothing."""
    return row.expires_at_ms > row.acquired_at_ms + lease_ttl_ms or row.progressed_at_ms > row.acquired_at_ms


def find_moves(
    views: Collection[DatabaseView], *, giver_id: str, under_way: Mapping[str, str], lease_ttl_ms: int
) -> Sequence[Move]:
    """Return what a process gives away now; mostly nothing.

    Args:
        views: what each of its databases showed last; shares are counted over all of them.
        giver_id: the process.
        under_way: tenant key to successor of its own moves that the views do not show yet.
    """
    return _Plan(views, under_way=under_way, lease_ttl_ms=lease_ttl_ms).find_moves(giver_id)


class _Plan:
    """The moves of all processes, planned one by one from the fullest to the emptiest."""

    def __init__(self, views: Iterable[DatabaseView], *, under_way: Mapping[str, str], lease_ttl_ms: int) -> None:
        self._lease_ttl_ms = lease_ttl_ms
        self._counts: dict[str, int] = {}
        self._room: dict[str, int] = {}
        self._movable: dict[str, dict[str, Members]] = {}
        for view in views:
            for member_id in view.members:
                self._counts.setdefault(member_id, 0)
                self._room.setdefault(member_id, FEW)
                self._movable.setdefault(member_id, {})
            for tenant_key, row in view.leases.items():
                self._count(row, view, successor_id=under_way.get(tenant_key))

    def _count(self, row: LeaseRow, view: DatabaseView, *, successor_id: str | None) -> None:
        holder_id = successor_id or row.holder_id
        if holder_id not in self._counts or row.expires_at_ms <= view.now_ms:
            return
        self._counts[holder_id] += 1
        if successor_id is None and is_taken_up(row, lease_ttl_ms=self._lease_ttl_ms):
            self._movable[holder_id][row.tenant_key] = view.members
        else:
            self._room[holder_id] -= 1

    def find_moves(self, giver_id: str) -> Sequence[Move]:
        moves: list[Move] = []
        counts = self._counts
        worth = max(2, math.ceil(sum(counts.values()) / max(1, len(counts)) * MOST_UNEVEN))
        receivers = {member_id for member_id, room in self._room.items() if room > 0}
        while receivers:
            receiver_id = min(receivers, key=lambda member_id: (counts[member_id], member_id))
            found = self._find_gift(receiver_id, worth=worth, giver_id=giver_id)
            if found is None:
                receivers.discard(receiver_id)
                continue
            holder_id, tenant_key = found
            del self._movable[holder_id][tenant_key]
            counts[holder_id] -= 1
            counts[receiver_id] += 1
            self._room[receiver_id] -= 1
            if self._room[receiver_id] == 0:
                receivers.discard(receiver_id)
            if holder_id == giver_id:
                moves.append(Move(tenant_key=tenant_key, successor_id=receiver_id))
        return moves

    def _find_gift(self, receiver_id: str, *, worth: int, giver_id: str) -> tuple[str, str] | None:
        """Return the fullest process that has something for this one, and what."""
        least = self._counts[receiver_id] + worth
        fuller = (member_id for member_id, count in self._counts.items() if count >= least)
        for holder_id in sorted(fuller, key=lambda member_id: (-self._counts[member_id], member_id)):
            gifts = (
                tenant_key
                for tenant_key, members in self._movable[holder_id].items()
                if receiver_id in members and members[receiver_id].takes(tenant_key)
            )
            if holder_id == giver_id:
                gift = max(gifts, key=lambda tenant_key: (_draw(tenant_key, receiver_id), tenant_key), default=None)
            else:
                gift = next(gifts, None)  # which one it is is for its holder to choose; here only the number counts
            if gift is not None:
                return holder_id, gift
        return None


def _find_rank(tenant_key: str, members: Members, holder_id: str) -> int:
    own = _draw(tenant_key, holder_id)
    return sum(
        _draw(tenant_key, member_id) > own
        for member_id, member in members.items()
        if member_id != holder_id and member.takes(tenant_key)
    )


def _draw(tenant_key: str, member_id: str) -> bytes:
    # Bytes of one length compare as the numbers they are.
    return blake2b(f"{tenant_key}\n{member_id}".encode(), digest_size=8).digest()
