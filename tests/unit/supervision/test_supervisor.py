"""The end of a process: nothing is released before what it published is finished and confirmed (I9)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from queue import SimpleQueue

import pytest

from django_leased_cron.core.clock import BootTime
from django_leased_cron.core.events import DatabaseOutage, Event, SupervisorStopped
from django_leased_cron.core.lease import FREE, ProcessReport
from django_leased_cron.core.occurrence import OccurrenceState
from django_leased_cron.core.publication import Publication, PublishResult
from django_leased_cron.exceptions import DatabaseUnavailableError
from django_leased_cron.lease_store.poll_timer import PollTimer
from django_leased_cron.supervision import supervisor
from django_leased_cron.supervision.database_loops import DatabaseLoops
from django_leased_cron.supervision.dispatch_pool import DispatchPool
from django_leased_cron.supervision.keeper import LeaseKeeper
from django_leased_cron.supervision.roster import TenantRoster
from django_leased_cron.supervision.seats import Leavers, Seats
from django_leased_cron.supervision.standby import StandbyPoll
from django_leased_cron.supervision.supervisor import Supervisor
from django_leased_cron.testing import RecordingPublisher
from tests.unit.supervision.process import TENANT, TIMING, Process, build_shares

PATIENCE_S = 5.0
"""Longer than anything here takes: where it passes, the test has failed."""
AWAY = DatabaseUnavailableError("default", "connection refused")


class HeldPublisher(RecordingPublisher):
    """Holds each publication until it is let go."""

    def __init__(self, process: Process) -> None:
        super().__init__(process.clock)
        self.begun = threading.Event()
        self.let_go = threading.Event()

    def publish(self, publications: Sequence[Publication], *, start_deadline: BootTime) -> Iterator[PublishResult]:
        self.begun.set()
        assert self.let_go.wait(PATIENCE_S)
        yield from super().publish(publications, start_deadline=start_deadline)


class WatchedPool(DispatchPool):
    """Calls back whenever somebody asks whether a seat is idle: the supervisor waits for it to be drained."""

    on_look: Callable[[], object] = staticmethod(lambda: None)

    def is_idle(self, tenant_key: str) -> bool:
        is_idle = super().is_idle(tenant_key)
        self.on_look()
        return is_idle


class Bench:
    """A whole process with one job that is due, in threads, over stand-ins; and one journal of all that is done."""

    def __init__(self) -> None:
        self.journal: list[str] = []
        self.process = Process()
        self.process.plan(7)
        self.leases, self.outbox = self.process.leases, self.process.outbox
        self.leases.acts.done = self.outbox.acts.done = self.journal
        self.publisher = HeldPublisher(self.process)
        self.pool = WatchedPool(threads=1, build_publisher=lambda: self.publisher, clock=self.process.clock)
        self.process.on_wake = lambda: self.pool.wake(TENANT)
        roster = TenantRoster(
            self.pool,
            list_places=dict,
            build_database=lambda _: self.build_loops(),
            build_seats=lambda *_: [self.process.seat],
            every_s=PATIENCE_S,
            emit=self.emit,
        )
        roster.admit({TENANT: ("default", "")})
        self.supervisor = Supervisor(
            roster,
            self.pool,
            holder_id="me",
            timing=TIMING,
            clock=self.process.clock,
            emit=self.emit,
        )

    def build_loops(self) -> DatabaseLoops:
        wake_ups = PollTimer()
        seats = Seats()
        keeper = LeaseKeeper(
            self.leases,
            seats,
            holder_id="me",
            timing=TIMING,
            describe=lambda: ProcessReport(
                holder_id="me", host="h", pid=1, version="1", draining=self.supervisor.draining, tenants=[]
            ),
            clock=self.process.clock,
            emit=self.emit,
        )
        standby = StandbyPoll(
            self.leases,
            wake_ups,
            seats,
            holder_id="me",
            shares=build_shares(self.leases, emit=self.emit),
            timing=replace(TIMING, poll_interval_s=0.01),
            is_broker_answering=lambda: True,
            clock=self.process.clock,
            emit=self.emit,
        )
        leavers = Leavers(
            seats,
            is_idle=self.pool.is_idle,
            patience_s=PATIENCE_S,
            clock=self.process.clock,
        )
        return DatabaseLoops(
            store=self.leases, wake_ups=wake_ups, keeper=keeper, standby=standby, seats=seats, leavers=leavers
        )

    def emit(self, event: Event) -> None:
        self.process.events.append(event)
        self.journal.append(type(event).__name__)

    def run_until_publishing(self) -> None:
        """Run the process; ask it to stop while its publication is under way."""
        self.supervisor.run(lambda: _wait(self.publisher.begun))

    @property
    def ended(self) -> SupervisorStopped:
        [event] = self.process.events.of(SupervisorStopped)
        return event

    def order_of(self, *names: str) -> list[str]:
        """Return those names as they came, from the stop on."""
        since = self.journal[self.journal.index("SupervisorStopping") :]
        return [name for name in since if name in names]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(supervisor, "_JOIN_S", PATIENCE_S)
    bench = Bench()
    yield bench
    bench.publisher.let_go.set()
    bench.pool.stop(timeout_s=PATIENCE_S)


def _wait(event: threading.Event) -> None:
    assert event.wait(PATIENCE_S)


def test_lease_is_released_only_after_what_is_in_flight_is_confirmed(bench: Bench) -> None:
    """Then the process signs off, and at last gives up its connections."""
    bench.pool.on_look = bench.publisher.let_go.set
    bench.run_until_publishing()
    order = ["confirm", "release", "forget_process", "close", "SupervisorStopped"]
    assert bench.order_of(*order) == order
    assert bench.outbox.states() == [OccurrenceState.SENT]
    assert bench.leases.rows[TENANT].holder_id == FREE
    assert (bench.ended.released, bench.ended.unreleased) == (1, 0)
    assert bench.publisher.is_closed


def test_nothing_is_claimed_or_bid_for_after_the_stop(bench: Bench) -> None:
    """Whatever has come due by then."""
    bench.process.plan(8, due_in_s=10)

    def wait_for_stop() -> None:
        _wait(bench.publisher.begun)
        bench.process.clock.advance(10)

    bench.pool.on_look = bench.publisher.let_go.set
    bench.supervisor.run(wait_for_stop)
    assert bench.order_of("claim", "try_acquire") == []
    assert len(bench.publisher.batches) == 1


def test_hung_publish_is_waited_for_no_longer_than_the_publish_timeout(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its lease is not released: it runs out, or is rescued. The process signs off all the same."""
    monkeypatch.setattr(supervisor, "_JOIN_S", 0.01)  # its thread hangs for good
    begun_at = bench.process.clock.boot_time()
    bench.pool.on_look = lambda: bench.process.clock.advance(0.5)
    bench.run_until_publishing()
    assert bench.order_of("release", "forget_process") == ["forget_process"]
    assert bench.leases.rows[TENANT].holder_id == "me"
    assert (bench.ended.released, bench.ended.unreleased) == (0, 1)
    assert bench.process.clock.boot_time() - begun_at <= TIMING.publish_timeout_s + 2


def test_lease_is_not_released_while_an_outcome_is_unrecorded(bench: Bench) -> None:
    """The database takes no confirm: the successor has to wait for what may be there."""
    bench.outbox.acts.lose_request("confirm", AWAY, times=1000)
    bench.publisher.let_go.set()
    bench.pool.on_look = lambda: bench.process.clock.advance(0.5)
    bench.run_until_publishing()
    assert bench.order_of("release", "forget_process") == ["forget_process"]
    assert bench.ended.unreleased == 1


def test_lease_is_not_released_while_the_row_of_an_outcome_is_locked(bench: Bench) -> None:
    """The successor would find it unconfirmed, and publish it again."""
    bench.outbox.locked_occurrences.add(1)
    bench.publisher.let_go.set()
    bench.pool.on_look = lambda: bench.process.clock.advance(0.5)
    bench.run_until_publishing()
    assert bench.order_of("release", "forget_process") == ["forget_process"]
    assert bench.ended.unreleased == 1


def test_release_that_fails_is_told_and_the_end_goes_on(bench: Bench) -> None:
    """The lease runs out by itself."""
    bench.leases.acts.lose_request("release", AWAY)
    bench.leases.acts.lose_request("forget_process", AWAY)
    bench.pool.on_look = bench.publisher.let_go.set
    bench.run_until_publishing()
    assert [outage.doing for outage in bench.process.events.of(DatabaseOutage)] == ["releasing leases", "signing off"]
    assert bench.ended.unreleased == 1
    assert bench.order_of("close", "SupervisorStopped") == ["close", "SupervisorStopped"]


def test_lease_that_is_somebody_elses_by_then_is_not_counted_as_released(bench: Bench) -> None:
    """Taken over in the last moment: the statement names the term and matches nothing (I10)."""
    bench.publisher.let_go.set()
    bench.pool.on_look = lambda: bench.leases.change(TENANT, holder_id="other", epoch=9)
    bench.run_until_publishing()
    assert bench.leases.rows[TENANT].holder_id == "other"
    assert bench.ended.released == 0


def test_process_that_never_held_anything_ends_at_once(bench: Bench) -> None:
    """A standby that is stopped."""
    bench.leases.read([TENANT])
    expires_at_ms = bench.leases.now_ms + 30_000
    bench.leases.change(TENANT, holder_id="other", epoch=3, expires_at_ms=expires_at_ms)
    bench.supervisor.run(lambda: None)
    assert bench.order_of("release", "forget_process", "close") == ["forget_process", "close"]
    assert (bench.ended.released, bench.ended.unreleased) == (0, 0)
    assert bench.leases.rows[TENANT].holder_id == "other"


def test_end_leaves_no_loop_running(bench: Bench) -> None:
    """A standby would take the lease that was just released."""
    before = set(threading.enumerate())
    bench.pool.on_look = bench.publisher.let_go.set
    bench.run_until_publishing()
    new = set(threading.enumerate()) - before
    assert [thread.name for thread in new if thread.name.startswith("leased-cron-")] == []


def test_process_says_at_once_that_it_is_draining(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its row tells the others to give it nothing more; nothing on the way down waits for that."""
    said: SimpleQueue[bool] = SimpleQueue()
    report = bench.leases.report_process

    def note(process: ProcessReport) -> None:
        report(process)
        said.put(process.draining)

    monkeypatch.setattr(bench.leases, "report_process", note)

    def let_go() -> None:
        while not said.get(timeout=PATIENCE_S):
            pass
        bench.publisher.let_go.set()
        bench.pool.on_look = lambda: None

    bench.pool.on_look = let_go
    bench.run_until_publishing()
    assert bench.publisher.let_go.is_set()


def test_what_was_given_until_the_process_signed_off_is_given_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By somebody who had not seen yet that the process is draining; once it has no row, nobody does."""
    forget = bench.leases.forget_process

    def give_and_forget(*, holder_id: str) -> None:
        bench.leases.change(TENANT, holder_id="me", epoch=9)
        forget(holder_id=holder_id)

    monkeypatch.setattr(bench.leases, "forget_process", give_and_forget)
    bench.publisher.let_go.set()
    bench.pool.on_look = lambda: None
    bench.run_until_publishing()
    assert bench.leases.rows[TENANT].holder_id == FREE
