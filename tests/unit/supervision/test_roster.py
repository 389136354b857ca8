"""Tenants come and go while a process runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from queue import SimpleQueue

import pytest

from django_leased_cron.core.events import DatabaseOutage, Event, LoopFailed, TermEnded
from django_leased_cron.core.lease import FREE, ProcessReport
from django_leased_cron.core.lease_machine import EndReason
from django_leased_cron.exceptions import DatabaseUnavailableError
from django_leased_cron.lease_store.poll_timer import PollTimer
from django_leased_cron.supervision.database_loops import DatabaseLoops
from django_leased_cron.supervision.dispatch_pool import DispatchPool
from django_leased_cron.supervision.keeper import LeaseKeeper
from django_leased_cron.supervision.roster import Places, TenantRoster
from django_leased_cron.supervision.seat import TenantSeat
from django_leased_cron.supervision.seats import Leavers, Seats
from django_leased_cron.supervision.standby import StandbyPoll
from tests.unit.supervision.process import TIMING, Process, build_shares

PATIENCE_S = 5.0
AWAY = DatabaseUnavailableError("default", "connection refused")


class RosterBench:
    """A process over stand-ins; its loops are built and, but for the roster's, never started."""

    def __init__(self) -> None:
        self.first = Process(tenant_key="first")
        self.clock, self.leases = self.first.clock, self.first.leases
        self.events: list[Event] = []
        self.built: list[str] = []
        self.processes: dict[str, Process] = {}
        self.pool = DispatchPool(threads=1, build_publisher=lambda: self.first.publisher, clock=self.clock)
        self.listed: SimpleQueue[Callable[[], Places]] = SimpleQueue()
        self.roster = self.build(every_s=3600)

    def build(self, *, every_s: float) -> TenantRoster:
        return TenantRoster(
            self.pool,
            list_places=lambda: self.listed.get(timeout=PATIENCE_S)(),
            build_database=self.build_database,
            build_seats=self.build_seats,
            every_s=every_s,
            emit=self.events.append,
        )

    def build_database(self, alias: str) -> DatabaseLoops:
        self.built.append(alias)
        seats, wake_ups = Seats(), PollTimer()
        keeper = LeaseKeeper(
            self.leases,
            seats,
            holder_id="me",
            timing=TIMING,
            describe=lambda: ProcessReport(holder_id="me", host="h", pid=1, version="1", draining=False, tenants=[]),
            clock=self.clock,
            emit=self.events.append,
        )
        standby = StandbyPoll(
            self.leases,
            wake_ups,
            seats,
            holder_id="me",
            shares=build_shares(self.leases, emit=self.events.append),
            timing=replace(TIMING, poll_interval_s=3600),
            is_broker_answering=lambda: True,
            clock=self.clock,
            emit=self.events.append,
        )
        leavers = Leavers(seats, is_idle=self.pool.is_idle, patience_s=5, clock=self.clock)
        return DatabaseLoops(
            store=self.leases, wake_ups=wake_ups, keeper=keeper, standby=standby, seats=seats, leavers=leavers
        )

    def build_seats(self, alias: str, tenant_keys: Iterable[str]) -> Sequence[TenantSeat]:
        for key in tenant_keys:
            self.processes[key] = Process(tenant_key=key, beside=self.first)
        return [self.processes[key].seat for key in tenant_keys]

    def admit(self, *tenant_keys: str, alias: str = "default", schema: str = "") -> None:
        self.roster.admit(dict.fromkeys(tenant_keys, (alias, schema)))

    @property
    def seated(self) -> list[str]:
        return sorted(seat.tenant_key for database in self.roster.databases for seat in database.seats)

    def hold(self, tenant_key: str) -> int:
        process = self.processes[tenant_key]
        epoch = process.take_over()
        process.seat.won(epoch, self.clock.boot_time())
        return epoch


@pytest.fixture
def bench() -> RosterBench:
    return RosterBench()


def test_new_tenants_get_seats_and_the_others_keep_theirs(bench: RosterBench) -> None:
    """A database has one set of loops, however many tenants come."""
    bench.admit("acme")
    seat = bench.processes["acme"].seat
    bench.admit("acme", "umbra")
    assert bench.seated == ["acme", "umbra"]
    assert bench.built == ["default"]
    assert bench.roster.databases[0].seats.by_key["acme"] is seat
    assert bench.roster.count_tenants() == 2


def test_tenant_of_another_database_gets_loops_of_its_own(bench: RosterBench) -> None:
    """Also where it comes later."""
    bench.admit("acme")
    bench.roster.admit({"acme": ("default", ""), "umbra": ("other", "")})
    assert bench.built == ["default", "other"]


def test_tenant_that_is_gone_is_released(bench: RosterBench) -> None:
    """Its lease is free for whoever still lists it; its term ends as one that was given back."""
    bench.admit("acme", "umbra")
    epoch = bench.hold("acme")
    bench.admit("umbra")
    assert bench.seated == ["umbra"]
    assert bench.leases.rows["acme"].holder_id == FREE
    assert bench.processes["acme"].events.of(TermEnded) == [
        TermEnded(tenant_key="acme", epoch=epoch, reason=EndReason.RELEASED)
    ]


def test_tenant_that_is_gone_and_was_not_held_just_goes(bench: RosterBench) -> None:
    """Nothing is written."""
    bench.admit("acme", "umbra")
    bench.admit("umbra")
    assert bench.seated == ["umbra"]
    assert "release" not in bench.leases.acts.done


def test_tenant_that_comes_back_is_seated_anew(bench: RosterBench) -> None:
    """With nothing of its former seat, which claims nothing any more."""
    bench.admit("acme")
    former = bench.processes["acme"].seat
    bench.admit()
    bench.admit("acme")
    assert bench.seated == ["acme"]
    assert bench.processes["acme"].seat is not former
    assert not bench.processes["acme"].seat.is_leaving


def test_tenant_whose_place_has_changed_is_another_one(bench: RosterBench) -> None:
    """One key, another schema: what the old seat knows is of other tables."""
    bench.admit("acme", schema="one")
    former = bench.processes["acme"].seat
    bench.admit("acme", schema="two")
    assert bench.processes["acme"].seat is not former
    assert bench.seated == ["acme"]


def test_tenant_with_something_in_flight_is_kept_until_that_is_recorded(bench: RosterBench) -> None:
    """Or until PUBLISH_TIMEOUT has passed: its tables may be gone."""
    bench.admit("acme")
    bench.hold("acme")
    process = bench.processes["acme"]
    process.plan(7)
    process.outbox.acts.lose_request("confirm", AWAY)
    process.seat.step(process.publisher)
    bench.admit()
    assert bench.seated == ["acme"]
    bench.clock.advance(5)
    bench.admit()
    assert bench.seated == []
    assert bench.leases.rows["acme"].holder_id == FREE


def test_database_that_is_away_keeps_who_is_to_go(bench: RosterBench) -> None:
    """Told, and tried again with the next list."""
    bench.admit("acme")
    bench.hold("acme")
    bench.leases.acts.lose_request("release", AWAY)
    bench.admit()
    assert bench.seated == ["acme"]
    assert [type(event) for event in bench.events] == [DatabaseOutage]
    bench.admit()
    assert bench.seated == []


def test_list_that_cannot_be_read_changes_nothing(bench: RosterBench) -> None:
    """Told once, however long it lasts."""
    bench.roster = bench.build(every_s=0.001)
    bench.admit("acme")
    admitted = threading.Semaphore(0)

    def fail() -> Places:
        raise LookupError("no list")

    def succeed() -> Places:
        admitted.release()
        return {"acme": ("default", ""), "umbra": ("default", "")}

    bench.roster.start()
    try:
        for answer in (fail, fail, succeed, fail, succeed):
            bench.listed.put(answer)
        for _ in range(2):
            assert admitted.acquire(timeout=PATIENCE_S)
    finally:
        bench.listed.put(succeed)
        bench.roster.stop(timeout_s=PATIENCE_S)
        for database in bench.roster.databases:
            database.standby.stop(timeout_s=PATIENCE_S)
            database.keeper.stop(timeout_s=PATIENCE_S)
    assert bench.seated == ["acme", "umbra"]
    failures = [event for event in bench.events if isinstance(event, LoopFailed)]
    assert [str(event.error) for event in failures] == ["no list", "no list"]
