"""The tenants of one database that this process takes part for; they come and go while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from django_leased_cron.core.clock import BootTime, Clock, later
from django_leased_cron.supervision.seat import TenantSeat


class Seats:
    """Seats by tenant key. One thread changes them; any may look, and sees them as they were at one moment."""

    def __init__(self, seats: Iterable[TenantSeat] = ()) -> None:
        self._by_key: Mapping[str, TenantSeat] = {seat.tenant_key: seat for seat in seats}

    def __iter__(self) -> Iterator[TenantSeat]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def by_key(self) -> Mapping[str, TenantSeat]:
        """What there is now; never changed afterwards."""
        return self._by_key

    def add(self, seats: Iterable[TenantSeat]) -> None:
        self._by_key = {**self._by_key, **{seat.tenant_key: seat for seat in seats}}

    def remove(self, tenant_keys: Iterable[str]) -> None:
        gone = set(tenant_keys)
        self._by_key = {key: seat for key, seat in self._by_key.items() if key not in gone}


class Leavers:
    """Seats of tenants that are no longer listed: they finish what is in hand, then give their leases back.

    One whose database no longer takes a confirm, since its schema is gone, is given up after ``PUBLISH_TIMEOUT``:
    there is nobody left to whom it would make a difference.
    """

    def __init__(
        self,
        seats: Seats,
        *,
        is_idle: Callable[[str], bool],
        patience_s: float,
        clock: Clock,
    ) -> None:
        self._seats = seats
        self._is_idle = is_idle
        self._patience_s = patience_s
        self._clock = clock
        self._until: dict[str, BootTime] = {}

    def tell(self, tenant_keys: Iterable[str]) -> None:
        """Have these seats claim nothing more."""
        until = later(self._clock.boot_time(), self._patience_s)
        for tenant_key in tenant_keys:
            if tenant_key not in self._until:
                self._until[tenant_key] = until
                self._seats.by_key[tenant_key].drain()

    def see_off(self) -> frozenset[str]:
        """Release and remove those that have finished; return their keys. Raises ``StoreError``: ask again later."""
        ready = [key for key, until in self._until.items() if self._has_finished(self._seats.by_key[key], until)]
        for tenant_key in ready:
            seat = self._seats.by_key[tenant_key]
            if (term := seat.term) is not None:
                seat.release(term)
        for tenant_key in ready:
            del self._until[tenant_key]
        self._seats.remove(ready)
        return frozenset(ready)

    def _has_finished(self, seat: TenantSeat, until: BootTime) -> bool:
        return (seat.is_drained and self._is_idle(seat.tenant_key)) or self._clock.boot_time() >= until
