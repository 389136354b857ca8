"""Renewing what a process holds: one statement a heartbeat, and no failure is an answer (I7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, repeat
from queue import SimpleQueue
from unittest.mock import DEFAULT, Mock

import pytest

from django_leased_cron.core.clock import BootTime
from django_leased_cron.core.events import DatabaseOutage, DatabaseRecovered, Event, LoopFailed
from django_leased_cron.core.lease import ProcessReport
from django_leased_cron.exceptions import DatabaseUnavailableError
from django_leased_cron.supervision.keeper import LeaseKeeper
from tests.unit.supervision.process import TENANT, TIMING, Process

AWAY = DatabaseUnavailableError("default", "connection refused")
REPORT = ProcessReport(holder_id="me", host="h", pid=1, version="1", draining=False, tenants=[])
NOW = 0
"""Heartbeats follow at once: the loop is not waited for."""


class Bench:
    """A keeper of two tenants that are held, and what it tells."""

    def __init__(self) -> None:
        self.acme = Process()
        self.umbra = Process(tenant_key="umbra", beside=self.acme)
        self.clock, self.leases = self.acme.clock, self.acme.leases
        for process in (self.acme, self.umbra):
            process.seat.won(process.take_over(), self.clock.boot_time())
        self.events: SimpleQueue[Event] = SimpleQueue()
        self.keeper = LeaseKeeper(
            self.leases,
            [self.acme.seat, self.umbra.seat],
            holder_id="me",
            timing=replace(TIMING, heartbeat_s=NOW),
            describe=lambda: REPORT,
            clock=self.clock,
            emit=self.events.put,
        )

    def expires_in_ms(self, tenant_key: str) -> int:
        return self.leases.rows[tenant_key].expires_at_ms - self.leases.now_ms


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def running(bench: Bench) -> Iterator[Bench]:
    """Return the same, to be started by the test and stopped afterwards."""
    yield bench
    bench.keeper.stop(timeout_s=5)


def trusted_until(process: Process) -> BootTime:
    """Return when the seat's term ends by itself, by waiting for it."""
    while process.seat.term is not None:
        process.clock.advance(0.5)
        process.seat.proved(-1, process.clock.boot_time())  # another epoch: only the clock is looked at
    return process.clock.boot_time()


def test_all_terms_are_renewed_in_one_statement(bench: Bench) -> None:
    """And the process says that it lives."""
    bench.keeper.beat()
    assert bench.leases.acts.done[-2:] == ["renew", "report_process"]
    assert [bench.expires_in_ms(tenant_key) for tenant_key in (TENANT, "umbra")] == [30_000, 30_000]
    assert bench.leases.processes == {"me": REPORT}


def test_slow_renewal_does_not_extend_trust(bench: Bench) -> None:
    """It counts from before it was asked for."""
    bench.clock.advance(10)
    asked_at = bench.clock.boot_time()
    bench.leases.acts.seconds["renew"] = 8
    bench.keeper.beat()
    assert trusted_until(bench.acme) == asked_at + TIMING.lease_ttl_s


def test_nothing_held_is_nothing_to_renew(bench: Bench) -> None:
    """The process lives all the same."""
    bench.acme.seat.denied(1)
    bench.umbra.seat.denied(1)
    bench.keeper.beat()
    assert "renew" not in bench.leases.acts.done
    assert bench.leases.processes == {"me": REPORT}


def test_loop_that_is_stuck_is_not_renewed(bench: Bench) -> None:
    """Its lease is for somebody who works; the other tenant's loop turns."""
    bench.clock.advance(TIMING.loop_stalled_after_s + 0.1)
    bench.umbra.seat.step(bench.umbra.publisher)
    bench.leases.change(TENANT, expires_at_ms=bench.leases.now_ms + 1)
    bench.keeper.beat()
    assert bench.expires_in_ms(TENANT) == 1
    assert bench.expires_in_ms("umbra") == 30_000


def test_lost_lease_ends_its_term_and_no_other(bench: Bench) -> None:
    """The database's own no."""
    bench.leases.change(TENANT, holder_id="other", epoch=2)
    bench.keeper.beat()
    assert bench.acme.seat.term is None
    assert bench.umbra.seat.term is not None


def test_busy_lease_changes_nothing(bench: Bench) -> None:
    """Somebody has its row locked, usually its own claim: neither lost nor proved."""
    bench.leases.locked.add(TENANT)
    begun_at = bench.clock.boot_time()
    bench.clock.advance(10)
    bench.keeper.beat()
    assert bench.acme.seat.term is not None
    assert trusted_until(bench.acme) == begun_at + TIMING.lease_ttl_s


@pytest.mark.parametrize("lose", ["lose_request", "lose_reply"])
def test_renewal_that_failed_changes_nothing(bench: Bench, lose: str) -> None:
    """Whether or not it was done: nothing is known of it, so nothing is believed."""
    begun_at = bench.clock.boot_time()
    bench.clock.advance(10)
    getattr(bench.leases.acts, lose)("renew", AWAY)
    with pytest.raises(DatabaseUnavailableError):
        bench.keeper.beat()
    assert bench.acme.seat.term is not None
    assert trusted_until(bench.acme) == begun_at + TIMING.lease_ttl_s


def test_outage_is_told_once_and_the_loop_goes_on(running: Bench) -> None:
    """Fifty heartbeats fail; then one gets through."""
    running.leases.acts.lose_request("renew", AWAY, times=50)
    running.keeper.start()
    assert isinstance(running.events.get(timeout=5), DatabaseOutage)
    assert isinstance(running.events.get(timeout=5), DatabaseRecovered)
    assert running.leases.acts.done.count("renew") >= 51
    assert running.acme.seat.term is not None


def test_error_of_ours_does_not_end_the_loop(running: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A term must not end for it."""
    errors = [ZeroDivisionError(), ZeroDivisionError()]
    renew = Mock(wraps=running.leases.renew, side_effect=chain(errors, repeat(DEFAULT)))
    monkeypatch.setattr(running.leases, "renew", renew)
    running.keeper.start()
    assert [running.events.get(timeout=5) for _ in errors] == [
        LoopFailed(doing="renewing leases", error=error) for error in errors
    ]
    running.keeper.stop(timeout_s=5)
    assert running.events.empty()
    assert running.acme.seat.term is not None
