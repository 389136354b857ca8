"""A bounded number of threads steps any number of tenants."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import cast

import pytest

from django_leased_cron.core.clock import BootTime, later
from django_leased_cron.core.publication import Publisher
from django_leased_cron.supervision.dispatch_pool import DispatchPool
from django_leased_cron.supervision.seat import TenantSeat
from django_leased_cron.testing import FakeClock, RecordingPublisher

PATIENCE_S = 5.0
"""Longer than anything here takes: where it passes, the test has failed."""


one_thread = pytest.mark.parametrize("bench", [1], indirect=True)
"""With one thread a step that has begun means that the one before was given back."""


class Seat:
    """A seat that says when a step has begun, and ends it when it is told to."""

    def __init__(self, tenant_key: str) -> None:
        self.tenant_key = tenant_key
        self.begun: SimpleQueue[Publisher] = SimpleQueue()
        self.go_on = threading.Semaphore(0)
        self.again_at: BootTime | None = None
        self.most_at_once = 0
        self._inside = 0

    def step(self, publisher: Publisher) -> BootTime | None:
        self._inside += 1
        self.most_at_once = max(self.most_at_once, self._inside)
        self.begun.put(publisher)
        assert self.go_on.acquire(timeout=PATIENCE_S)
        self._inside -= 1
        return self.again_at

    def wait_for_step(self) -> Publisher:
        return self.begun.get(timeout=PATIENCE_S)

    def pass_through(self) -> None:
        """Wait for one step and let it end."""
        self.wait_for_step()
        self.go_on.release()


class Bench:
    """A pool and three seats."""

    def __init__(self, *, threads: int) -> None:
        self.clock = FakeClock()
        self.publishers: SimpleQueue[RecordingPublisher] = SimpleQueue()
        self.pool = DispatchPool(threads=threads, build_publisher=self.build_publisher, clock=self.clock)
        self.seats = [Seat(tenant_key) for tenant_key in ("acme", "umbra", "globex")]
        for seat in self.seats:
            self.pool.add(cast(TenantSeat, seat))

    def build_publisher(self) -> RecordingPublisher:
        publisher = RecordingPublisher(self.clock)
        self.publishers.put(publisher)
        return publisher


@pytest.fixture(params=[2])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Return a running pool of two threads, or of as many as the test asks for."""
    bench = Bench(threads=request.param)
    bench.pool.start()
    yield bench
    for seat in bench.seats:
        seat.go_on.release(1000)
    bench.pool.stop(timeout_s=PATIENCE_S)


def test_seat_is_stepped_when_it_is_woken(bench: Bench) -> None:
    """And not before."""
    acme, umbra, _ = bench.seats
    bench.pool.wake("acme")
    acme.pass_through()
    assert umbra.begun.empty()


@one_thread
def test_seat_woken_in_a_step_is_stepped_once_more(bench: Bench) -> None:
    """However often: whatever it was woken for came before that step."""
    acme, umbra, _ = bench.seats
    bench.pool.wake("acme")
    acme.wait_for_step()
    for _ in range(3):
        bench.pool.wake("acme")
    acme.go_on.release()
    acme.pass_through()
    bench.pool.wake("umbra")
    umbra.pass_through()
    assert acme.begun.empty()


def test_seat_is_never_in_two_steps_at_once(bench: Bench) -> None:
    """The other thread is free, and takes the next seat instead."""
    acme, umbra, _ = bench.seats
    bench.pool.wake("acme")
    acme.wait_for_step()
    bench.pool.wake("acme")
    bench.pool.wake("umbra")
    umbra.pass_through()
    acme.go_on.release()
    acme.pass_through()
    assert acme.most_at_once == 1


def test_no_more_seats_are_stepped_at_once_than_there_are_threads(bench: Bench) -> None:
    """The third has its turn as soon as one of the two is done."""
    acme, umbra, globex = bench.seats
    for seat in bench.seats:
        bench.pool.wake(seat.tenant_key)
    acme.wait_for_step()
    umbra.wait_for_step()
    assert globex.begun.empty()
    umbra.go_on.release()
    globex.pass_through()
    acme.go_on.release()


@one_thread
def test_seat_is_stepped_again_when_its_time_has_come(bench: Bench) -> None:
    """At once if that has passed, and in the order of their times."""
    acme, umbra, globex = bench.seats
    acme.again_at = bench.clock.boot_time()
    bench.pool.wake("acme")
    acme.pass_through()
    acme.wait_for_step()
    acme.again_at = later(bench.clock.boot_time(), 3600)
    acme.go_on.release()
    umbra.again_at = later(bench.clock.boot_time(), 3599)
    bench.pool.wake("umbra")
    umbra.pass_through()
    bench.pool.wake("globex")
    globex.pass_through()
    assert acme.begun.empty()
    assert umbra.begun.empty()
    umbra.again_at = None
    bench.clock.advance(3600)
    bench.pool.wake("globex")  # the clock is a fake: somebody must make the pool look at it
    for seat in (umbra, acme, globex):
        seat.pass_through()


@one_thread
def test_wake_up_replaces_the_time_that_was_wanted(bench: Bench) -> None:
    """The seat is stepped now, and not again at that time."""
    acme, umbra, _ = bench.seats
    acme.again_at = later(bench.clock.boot_time(), 10)
    bench.pool.wake("acme")
    acme.pass_through()
    bench.pool.wake("umbra")
    umbra.pass_through()
    acme.again_at = None
    bench.pool.wake("acme")
    acme.pass_through()
    bench.clock.advance(10)
    umbra.again_at = bench.clock.boot_time()
    bench.pool.wake("umbra")
    for _ in range(2):  # the second of them would come after whatever was due by now
        umbra.pass_through()
    assert acme.begun.empty()


def test_seat_is_idle_when_it_is_neither_stepped_nor_about_to_be(bench: Bench) -> None:
    """One that waits for its time is idle until then."""
    acme, umbra, globex = bench.seats
    assert bench.pool.is_idle("acme")
    for seat in (acme, umbra):
        bench.pool.wake(seat.tenant_key)
        seat.wait_for_step()
    assert not bench.pool.is_idle("acme")
    bench.pool.wake("globex")  # both threads are taken
    assert not bench.pool.is_idle("globex")
    acme.again_at = later(bench.clock.boot_time(), 10)
    acme.go_on.release()
    globex.pass_through()
    assert bench.pool.is_idle("acme")
    bench.clock.advance(10)
    assert not bench.pool.is_idle("acme")


def test_each_thread_has_a_broker_connection_of_its_own(bench: Bench) -> None:
    """Given up at the end."""
    acme, umbra, _ = bench.seats
    bench.pool.wake("acme")
    bench.pool.wake("umbra")
    used = {id(acme.wait_for_step()), id(umbra.wait_for_step())}
    acme.go_on.release()
    umbra.go_on.release()
    bench.pool.stop(timeout_s=PATIENCE_S)
    publishers = [bench.publishers.get_nowait() for _ in range(2)]
    assert {id(publisher) for publisher in publishers} == used
    assert all(publisher.is_closed for publisher in publishers)
    assert bench.publishers.empty()


def test_stop_does_not_wait_for_a_step_that_hangs(bench: Bench) -> None:
    """The thread is left to the end of the process; what was still to be stepped is not."""
    acme, umbra, _ = bench.seats
    bench.pool.wake("acme")
    acme.wait_for_step()
    bench.pool.stop(timeout_s=0)
    bench.pool.wake("umbra")
    acme.go_on.release()
    bench.pool.stop(timeout_s=PATIENCE_S)
    assert umbra.begun.empty()


@one_thread
def test_first_steps_that_can_wait_let_due_ones_pass(bench: Bench) -> None:
    """A term that owes nothing yet is begun when nobody else has anything to do."""
    acme, umbra, globex = bench.seats
    bench.pool.wake("acme")
    acme.wait_for_step()
    bench.pool.wake_by("umbra", later(bench.clock.boot_time(), 3600))
    bench.pool.wake("globex")
    acme.go_on.release()
    globex.pass_through()
    umbra.pass_through()


@one_thread
def test_first_step_that_could_wait_does_not_when_its_time_has_come(bench: Bench) -> None:
    """And is done once."""
    acme, umbra, globex = bench.seats
    bench.pool.wake("acme")
    acme.wait_for_step()
    bench.pool.wake_by("globex", BootTime(math.inf))
    bench.pool.wake_by("umbra", later(bench.clock.boot_time(), 60))
    bench.clock.advance(60)
    acme.go_on.release()
    umbra.pass_through()
    globex.pass_through()
    bench.pool.wake("acme")
    acme.pass_through()
    assert umbra.begun.empty()


@one_thread
def test_seat_that_is_removed_is_not_stepped_again(bench: Bench) -> None:
    """Whether it waits for its time, is woken, or is being stepped."""
    acme, umbra, globex = bench.seats
    acme.again_at = bench.clock.boot_time()
    bench.pool.wake("acme")
    acme.wait_for_step()
    bench.pool.wake("umbra")
    for seat in (acme, umbra):
        bench.pool.remove(seat.tenant_key)
        bench.pool.wake(seat.tenant_key)
    acme.go_on.release()
    bench.pool.wake("globex")
    globex.pass_through()
    assert acme.begun.empty()
    assert umbra.begun.empty()


@one_thread
def test_first_steps_that_can_wait_do_not_wait_for_ever(bench: Bench) -> None:
    """One seat is due again and again, and the thread never has nothing to do: the eighth step is another's."""
    acme, umbra, _ = bench.seats
    acme.again_at = bench.clock.boot_time()
    bench.pool.wake("acme")
    acme.wait_for_step()
    bench.pool.wake_by("umbra", BootTime(math.inf))
    acme.go_on.release()
    for _ in range(6):
        acme.pass_through()
    umbra.pass_through()
    acme.wait_for_step()
    acme.again_at = None
    acme.go_on.release()
