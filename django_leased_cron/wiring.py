"""The composition root: which adapter meets which loop."""

from __future__ import annotations

import os
import secrets
import socket
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

from celery import Celery, current_app

from django_leased_cron import __version__
from django_leased_cron.code_schedule.sync import CodeScheduleSync
from django_leased_cron.conf import LeasedCronSettings
from django_leased_cron.core.adoption import EpochSightings
from django_leased_cron.core.claiming import ClaimRules
from django_leased_cron.core.clock import Clock, SystemClock
from django_leased_cron.core.database_clock import DatabaseClockEstimate
from django_leased_cron.core.events import Emit, Event
from django_leased_cron.core.lease import ProcessReport
from django_leased_cron.core.publication import Publisher
from django_leased_cron.database import build_dialect, find_storage_zone
from django_leased_cron.database.session import SessionPool
from django_leased_cron.lease_store import build_lease_store, build_wake_ups
from django_leased_cron.outbox import DatabaseOutbox
from django_leased_cron.publishing import build_publisher
from django_leased_cron.solar import build_solar_calculator
from django_leased_cron.supervision.confirmer import Confirmer
from django_leased_cron.supervision.dispatch_context import DispatchContext
from django_leased_cron.supervision.dispatch_pool import DispatchPool
from django_leased_cron.supervision.keeper import LeaseKeeper
from django_leased_cron.supervision.outage import OutageWatch
from django_leased_cron.supervision.seat import TenantSeat
from django_leased_cron.supervision.shares import FairShare, ShareGiver
from django_leased_cron.supervision.standby import StandbyPoll
from django_leased_cron.supervision.supervisor import DatabaseLoops, Supervisor
from django_leased_cron.tenants import Tenant

_LONGEST_HOST = 100


def build_holder_id() -> str:
    """Return a new identity: host, pid and eight random hex digits.

    New at each process start and never configured: a name that two processes can share is two holders.
    """
    return f"{socket.gethostname()[:_LONGEST_HOST]}-{os.getpid()}-{secrets.token_hex(4)}"


def _emit_to(*listeners: Emit) -> Emit:
    def emit(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return emit


class SupervisorBuilder:
    """Builds the supervisor of one process."""

    def __init__(
        self,
        settings: LeasedCronSettings,
        tenants: Sequence[Tenant],
        *,
        only: Sequence[str],
        emit: Emit,
        app: Celery | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._tenants = list(tenants)
        self._only = list(only)
        self._app = app or current_app
        self._emit = _emit_to(emit, CodeScheduleSync(self._app, tenants, emit=emit).observe)
        self._clock = clock or SystemClock()
        self._holder_id = build_holder_id()
        self._solar_calculator = build_solar_calculator()
        self._supervisor: Supervisor | None = None

    def build(self) -> Supervisor:
        """Return the supervisor, its loops not yet started; touches no database but to ask a server's kind."""
        settings = self._settings
        threads = max(1, min(settings.dispatch_threads, len(self._tenants)))
        pool = DispatchPool(threads=threads, build_publisher=self._build_publisher, clock=self._clock)
        by_alias: defaultdict[str, list[Tenant]] = defaultdict(list)
        for tenant in self._tenants:
            by_alias[tenant.alias].append(tenant)
        fair_share = FairShare(
            holder_id=self._holder_id, lease_ttl_ms=settings.timing.lease_ttl_ms, tenants=len(self._tenants)
        )
        databases = [self._build_database(alias, tenants, pool, fair_share) for alias, tenants in by_alias.items()]
        self._supervisor = Supervisor(
            databases,
            pool,
            holder_id=self._holder_id,
            timing=settings.timing,
            clock=self._clock,
            emit=self._emit,
        )
        return self._supervisor

    def _build_publisher(self) -> Publisher:
        return build_publisher(self._app, self._clock, publish_timeout_s=self._settings.publish_timeout_s)

    def _build_database(
        self, alias: str, tenants: Sequence[Tenant], pool: DispatchPool, fair_share: FairShare
    ) -> DatabaseLoops:
        timing = self._settings.timing
        sessions = SessionPool(alias, build_dialect(alias))
        store = build_lease_store(sessions, lease_ttl_ms=timing.lease_ttl_ms, rescue_after_ms=timing.rescue_after_ms)
        wake_ups = build_wake_ups(alias, sessions.dialect)
        seats = [self._build_seat(tenant, sessions, pool) for tenant in tenants]
        keeper = LeaseKeeper(
            store,
            seats,
            holder_id=self._holder_id,
            timing=timing,
            describe=self._describe,
            clock=self._clock,
            emit=self._emit,
        )
        standby = StandbyPoll(
            store,
            wake_ups,
            seats,
            holder_id=self._holder_id,
            shares=ShareGiver(store, fair_share, emit=self._emit),
            timing=timing,
            is_broker_answering=self._build_publisher().is_answering,
            clock=self._clock,
            emit=self._emit,
        )
        return DatabaseLoops(store=store, wake_ups=wake_ups, keeper=keeper, standby=standby, seats=seats)

    def _build_seat(self, tenant: Tenant, sessions: SessionPool, pool: DispatchPool) -> TenantSeat:
        settings, timing = self._settings, self._settings.timing
        outbox = DatabaseOutbox(
            sessions,
            lease_ttl_ms=timing.lease_ttl_ms,
            missed_after_ms=timing.missed_after_ms,
            catch_up=settings.catch_up,
        )
        outage = OutageWatch(alias=tenant.alias, doing="recording runs", emit=self._emit)
        context = DispatchContext(
            outbox=outbox,
            confirmer=Confirmer(outbox, clock=self._clock, outage=outage),
            sightings=EpochSightings(publish_timeout_s=timing.publish_timeout_s),
            estimate=DatabaseClockEstimate(),
            rules=ClaimRules(
                tenant_key=tenant.key,
                storage_zone=find_storage_zone(tenant.alias),
                missed_after_ms=timing.missed_after_ms,
                catch_up=settings.catch_up,
                catch_up_window_ms=timedelta(seconds=settings.catch_up_window_s) // timedelta(milliseconds=1),
                delivery=settings.delivery,
                solar_calculator=self._solar_calculator,
            ),
            timing=timing,
            batch_size=settings.batch_size,
            history_retention_s=settings.history_retention_s,
            clock=self._clock,
            emit=self._emit,
        )
        seat = TenantSeat(
            context,
            tenant_key=tenant.key,
            alias=tenant.alias,
            holder_id=self._holder_id,
            wake=lambda: pool.wake(tenant.key),
        )
        pool.add(seat)
        return seat

    def _describe(self) -> ProcessReport:
        return ProcessReport(
            holder_id=self._holder_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            draining=self._supervisor is not None and self._supervisor.draining,
            tenants=self._only,
        )
