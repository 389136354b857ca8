"""What runs once per database, however many tenants are in it."""

from __future__ import annotations

from dataclasses import dataclass

from django_leased_cron.core.lease import LeaseStore, WakeUps
from django_leased_cron.supervision.keeper import LeaseKeeper
from django_leased_cron.supervision.seats import Leavers, Seats
from django_leased_cron.supervision.standby import StandbyPoll


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseLoops:
    """The leases' keeper, the standby that looks at them, and the seats of the tenants there."""

    store: LeaseStore
    wake_ups: WakeUps
    keeper: LeaseKeeper
    standby: StandbyPoll
    seats: Seats
    leavers: Leavers

    def start(self) -> None:
        self.keeper.start()
        self.standby.start()

    def close(self) -> None:
        self.store.close()
        self.wake_ups.close()
