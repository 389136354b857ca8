"""A scheduling process in simulated time: the real planner, claim, publication and confirm, one step after another."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

from django_leased_cron.core.adoption import EpochSightings
from django_leased_cron.core.bidding import LeaseObserver, find_takeover
from django_leased_cron.core.claiming import ClaimRules
from django_leased_cron.core.database_clock import DatabaseClockEstimate
from django_leased_cron.core.events import Event
from django_leased_cron.core.lease import Acquired
from django_leased_cron.core.occurrence import CatchUp, Delivery
from django_leased_cron.core.outbox import TermKey, TermLost
from django_leased_cron.core.timing import LeaseTiming
from django_leased_cron.database import find_storage_zone
from django_leased_cron.database.session import SessionPool
from django_leased_cron.lease_store import build_lease_store
from django_leased_cron.solar import build_solar_calculator
from django_leased_cron.supervision.confirmer import Confirmer
from django_leased_cron.supervision.dispatch_context import DispatchContext
from django_leased_cron.supervision.dispatcher import TermDispatcher
from django_leased_cron.supervision.outage import OutageWatch
from tests.simulation.broker import SimulatedBroker
from tests.simulation.simulated_time import SimulatedDialect, SimulatedTime
from tests.simulation.timeline import Happening, Rested
from tests.simulation.watched_outbox import WatchedOutbox

TENANT: Final = "acme"
CATCH_UP: Final = CatchUp.ONCE
WINDOW_S: Final = 86_400
_BATCH_SIZE: Final = 500
_HISTORY_RETENTION_S: Final = 10 * 365 * 86_400
_MOST_STEPS: Final = 20_000
"""More than any moment needs: a dispatcher that asks for more is spinning."""

Result = TypeVar("Result")


class SimulatedProcess:
    """One process and its tenant, standby until it takes the lease over."""

    def __init__(
        self,
        alias: str,
        *,
        holder_id: str,
        time: SimulatedTime,
        broker: SimulatedBroker,
        timeline: list[Happening],
        timing: LeaseTiming,
    ) -> None:
        self.events: list[Event] = []
        self._holder_id = holder_id
        self._time = time
        self._broker = broker
        self._timeline = timeline
        self._timing = timing
        self._pool = SessionPool(alias, SimulatedDialect(time=time))
        self._leases = build_lease_store(
            self._pool, lease_ttl_ms=timing.lease_ttl_ms, rescue_after_ms=timing.rescue_after_ms
        )
        self._observer = LeaseObserver()
        outbox = WatchedOutbox(self._pool, time=time, timeline=timeline, timing=timing, catch_up=CATCH_UP)
        outage = OutageWatch(alias=alias, doing="recording runs", emit=self.events.append)
        self._context = DispatchContext(
            outbox=outbox,
            confirmer=Confirmer(outbox, clock=time, outage=outage),
            sightings=EpochSightings(publish_timeout_s=timing.publish_timeout_s),
            estimate=DatabaseClockEstimate(),
            rules=ClaimRules(
                tenant_key=TENANT,
                storage_zone=find_storage_zone(alias),
                missed_after_ms=timing.missed_after_ms,
                catch_up=CATCH_UP,
                catch_up_window_ms=WINDOW_S * 1000,
                delivery=Delivery.AT_LEAST_ONCE,
                solar_calculator=build_solar_calculator(),
            ),
            timing=timing,
            batch_size=_BATCH_SIZE,
            history_retention_s=_HISTORY_RETENTION_S,
            clock=time,
            emit=self.events.append,
            run_beside=_run_at_once,
        )
        self._dispatcher: TermDispatcher | None = None

    def try_take_over(self) -> bool:
        """Look at the lease, and take it if the rules of bidding allow that now."""
        reading = self._leases.read([TENANT])
        row = reading.leases[TENANT]
        at = self._time.boot_time()
        self._context.sightings.note(row.epoch, at=at)
        self._observer.observe(reading, at=at)
        reason = find_takeover(
            row,
            reading,
            holder_id=self._holder_id,
            held_epochs={},
            at=at,
            timing=self._timing,
            observer=self._observer,
        )
        if reason is None:
            return False
        reply = self._leases.try_acquire(row, holder_id=self._holder_id, reason=reason)
        assert isinstance(reply, Acquired)
        self._context.sightings.note(reply.epoch, at=at)
        self._dispatcher = TermDispatcher(
            self._context,
            term=TermKey(tenant_key=TENANT, holder_id=self._holder_id, epoch=reply.epoch),
            proved=lambda epoch, asked_at: None,
            turned=lambda: None,
        )
        return True

    def run(self) -> None:
        """Step until there is nothing more to do at this moment.

        Raises:
            ProcessDied: the broker was told to end it.
        """
        assert self._dispatcher is not None
        for _ in range(_MOST_STEPS):
            again_at = self._dispatcher.step(self._broker)
            assert not isinstance(again_at, TermLost)
            if again_at > self._time.boot_time():
                self._timeline.append(Rested(at_ms=self._time.now_ms))
                return
        raise AssertionError("the dispatcher does not come to rest")

    def wake_up_late(self) -> None:
        """Go on after somebody else has taken the lease: whatever this process believes, it can do nothing."""
        assert self._dispatcher is not None
        accepted = len(self._broker.accepted)
        for _ in range(10):
            if isinstance(self._dispatcher.step(self._broker), TermLost):
                break
        assert len(self._broker.accepted) == accepted

    def close(self) -> None:
        self._pool.close()


def _run_at_once(call: Callable[[], Result]) -> Future[Result]:
    """Do what is to be done beside a batch before it: as if the database were much quicker than the broker."""
    future: Future[Result] = Future()
    future.set_result(call())
    return future
