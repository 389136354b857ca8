"""The composition root: which adapter meets which loop."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import timedelta, tzinfo
from functools import partial

from celery import Celery, current_app
from django.db import connections

from django_leased_cron import __version__
from django_leased_cron.code_schedule.sync import CodeScheduleSync
from django_leased_cron.conf import LeasedCronSettings
from django_leased_cron.core.adoption import EpochSightings
from django_leased_cron.core.claiming import ClaimRules
from django_leased_cron.core.clock import Clock, SystemClock
from django_leased_cron.core.database_clock import DatabaseClockEstimate
from django_leased_cron.core.events import Emit, Event
from django_leased_cron.core.lease import LeaseStore, ProcessReport
from django_leased_cron.core.publication import Publisher
from django_leased_cron.database import build_dialect, find_storage_zone
from django_leased_cron.database.session import SessionPool
from django_leased_cron.edit_triggers import find_edited_schemas
from django_leased_cron.lease_store import build_lease_store, build_wake_ups
from django_leased_cron.outbox import DatabaseOutbox
from django_leased_cron.publishing import build_publisher
from django_leased_cron.schema_settings import find_shared_schema
from django_leased_cron.solar import build_solar_calculator
from django_leased_cron.supervision.confirmer import Confirmer
from django_leased_cron.supervision.database_loops import DatabaseLoops
from django_leased_cron.supervision.dispatch_context import DispatchContext
from django_leased_cron.supervision.dispatch_pool import DispatchPool
from django_leased_cron.supervision.keeper import LeaseKeeper
from django_leased_cron.supervision.outage import OutageFold, OutageWatch
from django_leased_cron.supervision.roster import Places, TenantRoster
from django_leased_cron.supervision.seat import TenantSeat
from django_leased_cron.supervision.seats import Leavers, Seats
from django_leased_cron.supervision.shares import FairShare, ShareGiver
from django_leased_cron.supervision.standby import StandbyPoll
from django_leased_cron.supervision.supervisor import Supervisor
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
        list_tenants: Callable[[], Sequence[Tenant]] | None = None,
        app: Celery | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Prepare to build.

        Args:
            tenants: who is listed now.
            only: the keys of the tenants that the process is started for; empty: all.
            list_tenants: returns who is listed, at any later time; left out: nobody comes or goes.
        """
        self._settings = settings
        self._listed = list(tenants)
        self._list_tenants = list_tenants
        self._only = list(only)
        self._app = app or current_app
        self._tenants: dict[str, Tenant] = {}
        told = OutageFold(emit).emit
        self._emit = _emit_to(told, CodeScheduleSync(self._app, self._tenants, emit=told).observe)
        self._clock = clock or SystemClock()
        self._holder_id = build_holder_id()
        self._solar_calculator = build_solar_calculator()
        self._supervisor: Supervisor | None = None
        self._stores: dict[str, LeaseStore] = {}
        self._outboxes: dict[str, DatabaseOutbox] = {}
        self._estimates: dict[str, DatabaseClockEstimate] = {}

    def build(self) -> Supervisor:
        """Return the supervisor, its loops not yet started; touches no database but to ask a server's kind.

        Raises:
            ConfigurationError: no message can be published with Celery's configuration.
            ImportError: nor without a library or a task module that cannot be imported.
        """
        settings = self._settings
        # Before anything is opened, and though nobody may be listed yet: the first dispatch would be the first to say.
        self._build_publisher().close()
        self._pool = DispatchPool(
            threads=settings.dispatch_threads, build_publisher=self._build_publisher, clock=self._clock
        )
        self._roster = TenantRoster(
            self._pool,
            list_places=self._list_places,
            build_database=self._build_database,
            build_seats=self._build_seats,
            every_s=settings.timing.heartbeat_s,
            emit=self._emit,
        )
        self._fair_share = FairShare(
            holder_id=self._holder_id,
            lease_ttl_ms=settings.timing.lease_ttl_ms,
            count_tenants=self._roster.count_tenants,
        )
        self._roster.admit(self._take_in(self._listed))
        self._supervisor = Supervisor(
            self._roster,
            self._pool,
            holder_id=self._holder_id,
            timing=settings.timing,
            clock=self._clock,
            emit=self._emit,
        )
        return self._supervisor

    def _list_places(self) -> Places:
        if self._list_tenants is None:
            return self._take_in(self._listed)
        try:
            return self._take_in(self._list_tenants())
        finally:
            connections.close_all()  # of this thread: nothing else uses them until the next time

    def _take_in(self, listed: Sequence[Tenant]) -> Places:
        """Return the places of those that this process takes part for."""
        tenants = [tenant for tenant in listed if not self._only or tenant.key in self._only]
        self._tenants.update((tenant.key, tenant) for tenant in tenants)
        return {tenant.key: (tenant.alias, tenant.schema) for tenant in tenants}

    def _build_publisher(self) -> Publisher:
        return build_publisher(self._app, self._clock, publish_timeout_s=self._settings.publish_timeout_s)

    def _build_database(self, alias: str) -> DatabaseLoops:
        settings, timing = self._settings, self._settings.timing
        sessions = SessionPool(alias, build_dialect(alias))
        store = build_lease_store(sessions, lease_ttl_ms=timing.lease_ttl_ms, rescue_after_ms=timing.rescue_after_ms)
        wake_ups = build_wake_ups(alias, sessions.dialect)
        self._stores[alias] = store
        self._outboxes[alias] = DatabaseOutbox(
            sessions,
            lease_ttl_ms=timing.lease_ttl_ms,
            missed_after_ms=timing.missed_after_ms,
            catch_up=settings.catch_up,
        )
        self._estimates[alias] = DatabaseClockEstimate()
        has_schemas = find_shared_schema(connections[alias]) is not None
        seats = Seats()
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
            shares=ShareGiver(store, self._fair_share, emit=self._emit),
            timing=timing,
            is_broker_answering=self._build_publisher().is_answering,
            estimate=self._estimates[alias],
            find_edited=partial(self._find_edited, alias, sessions) if has_schemas else None,
            clock=self._clock,
            emit=self._emit,
        )
        leavers = Leavers(
            seats,
            is_idle=self._pool.is_idle,
            patience_s=timing.publish_timeout_s,
            clock=self._clock,
        )
        return DatabaseLoops(
            store=store, wake_ups=wake_ups, keeper=keeper, standby=standby, seats=seats, leavers=leavers
        )

    def _find_edited(self, alias: str, sessions: SessionPool) -> Collection[str]:
        """Return the tenants of a database whose jobs were edited; one without a schema has them all."""
        schemas = find_edited_schemas(sessions)
        if not schemas:
            return ()
        tenants = [tenant for tenant in [*self._tenants.values()] if tenant.alias == alias]
        return [tenant.key for tenant in tenants if not tenant.schema or tenant.schema in schemas]

    def _build_seats(self, alias: str, tenant_keys: Iterable[str]) -> Sequence[TenantSeat]:
        storage_zone = find_storage_zone(alias)
        return [self._build_seat(self._tenants[key], storage_zone) for key in tenant_keys]

    def _build_seat(self, tenant: Tenant, storage_zone: tzinfo) -> TenantSeat:
        settings, timing = self._settings, self._settings.timing
        outbox = self._outboxes[tenant.alias]
        if tenant.schema:
            outbox = outbox.of_schema(tenant.schema)
        outage = OutageWatch(alias=tenant.alias, doing="recording runs", emit=self._emit)
        context = DispatchContext(
            outbox=outbox,
            confirmer=Confirmer(outbox, clock=self._clock, outage=outage),
            sightings=EpochSightings(publish_timeout_s=timing.publish_timeout_s),
            estimate=self._estimates[tenant.alias],
            rules=ClaimRules(
                tenant_key=tenant.key,
                storage_zone=storage_zone,
                missed_after_ms=timing.missed_after_ms,
                catch_up=settings.catch_up,
                catch_up_window_ms=timedelta(seconds=settings.catch_up_window_s) // timedelta(milliseconds=1),
                delivery=settings.delivery,
                solar_calculator=self._solar_calculator,
                schema=tenant.schema,
            ),
            timing=timing,
            batch_size=settings.batch_size,
            history_retention_s=settings.history_retention_s,
            clock=self._clock,
            emit=self._emit,
            edits_are_announced=find_shared_schema(connections[tenant.alias]) is not None,
            count_tenants=self._roster.count_tenants,
        )
        return TenantSeat(
            context,
            leases=self._stores[tenant.alias],
            tenant_key=tenant.key,
            holder_id=self._holder_id,
            wake=partial(self._pool.wake, tenant.key),
            wake_by=partial(self._pool.wake_by, tenant.key),
        )

    def _describe(self) -> ProcessReport:
        return ProcessReport(
            holder_id=self._holder_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            draining=self._supervisor is not None and self._supervisor.draining,
            tenants=self._only,
        )
