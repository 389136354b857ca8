"""Keeping the seats in step with the list of tenants, which come and go while a process runs."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from django_leased_cron.core.events import Emit, LoopFailed
from django_leased_cron.exceptions import StoreError
from django_leased_cron.supervision.database_loops import DatabaseLoops
from django_leased_cron.supervision.dispatch_pool import DispatchPool
from django_leased_cron.supervision.outage import OutageWatch
from django_leased_cron.supervision.seat import TenantSeat

Places = Mapping[str, tuple[str, Hashable]]
"""Tenant key to alias and whatever else tells where its jobs are: a key with another place is another tenant."""


class TenantRoster:
    """Reads the list once in a while: gives new tenants a seat, and lets go of those that are gone.

    A list that cannot be read changes nothing.
    """

    def __init__(
        self,
        pool: DispatchPool,
        *,
        list_places: Callable[[], Places],
        build_database: Callable[[str], DatabaseLoops],
        build_seats: Callable[[str, Iterable[str]], Sequence[TenantSeat]],
        every_s: float,
        emit: Emit,
    ) -> None:
        """Begin with nobody.

        Args:
            list_places: returns the tenants as they are now.
            build_database: called with an alias where the first tenant of a database has come.
            build_seats: called with that alias and the keys of tenants that are new there.
        """
        self._pool = pool
        self._list_places = list_places
        self._build_database = build_database
        self._build_seats = build_seats
        self._every_s = every_s
        self._emit = emit
        self._places: dict[str, tuple[str, Hashable]] = {}
        self._databases: dict[str, DatabaseLoops] = {}
        self._failing = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leased-cron-roster", daemon=True)

    @property
    def databases(self) -> Sequence[DatabaseLoops]:
        """Those with a tenant now or earlier."""
        return list(self._databases.values())

    def count_tenants(self) -> int:
        return sum(len(database.seats) for database in self.databases)

    def start(self) -> None:
        for database in self.databases:
            database.start()
        self._thread.start()

    def stop(self, *, timeout_s: float) -> None:
        """Let nobody in or out any more."""
        self._stopping.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s):
            try:
                self.admit(self._list_places())
            except Exception as exc:  # noqa: BLE001 - top of the loop: a user's own source may raise anything
                if not self._failing:
                    self._emit(LoopFailed(doing="listing tenants", error=exc))
                self._failing = True
            else:
                self._failing = False

    def admit(self, listed: Places) -> None:
        """Bring the seats in step with a list; loops of databases that are new are started once this is."""
        gone = [tenant_key for tenant_key, place in self._places.items() if listed.get(tenant_key) != place]
        for alias, database in self._databases.items():
            database.leavers.tell(key for key in gone if self._places[key][0] == alias)
            self._see_off(alias, database)
        new: defaultdict[str, list[str]] = defaultdict(list)
        for tenant_key, (alias, _) in listed.items():
            if tenant_key not in self._places:
                new[alias].append(tenant_key)
        for alias, tenant_keys in new.items():
            if alias not in self._databases:
                self._databases[alias] = self._build_database(alias)
                if self._thread.is_alive():
                    self._databases[alias].start()
            seats = self._build_seats(alias, tenant_keys)
            for seat in seats:
                self._pool.add(seat)
            self._databases[alias].seats.add(seats)
            self._places.update((tenant_key, listed[tenant_key]) for tenant_key in tenant_keys)

    def _see_off(self, alias: str, database: DatabaseLoops) -> None:
        outage = OutageWatch(alias=alias, doing="releasing leases", emit=self._emit)
        try:
            gone = database.leavers.see_off()
        except StoreError as exc:
            outage.failed(exc)
            return
        for tenant_key in gone:
            self._pool.remove(tenant_key)
            del self._places[tenant_key]
