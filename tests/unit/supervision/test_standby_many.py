"""The standby of a process with many tenants in one database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from django_leased_cron.core.events import LeaseAcquired, LeaseGiven
from django_leased_cron.core.lease import FREE, Acquired, Bid, ProcessReport
from django_leased_cron.core.placement import is_first_choice
from django_leased_cron.lease_store.poll_timer import PollTimer
from django_leased_cron.supervision.seats import Seats
from django_leased_cron.supervision.standby import StandbyPoll
from tests.unit.supervision.process import TIMING, Process, build_shares

KEYS = [f"tenant-{number:02}" for number in range(30)]


class Bench:
    """A process that looks at thirty tenants, all held by another one that has just shown progress."""

    def __init__(self) -> None:
        first = Process(tenant_key=KEYS[0])
        self.clock, self.leases, self.events = first.clock, first.leases, first.events
        self.processes = {KEYS[0]: first} | {key: Process(tenant_key=key, beside=first) for key in KEYS[1:]}
        self.seats = Seats(process.seat for process in self.processes.values())
        self.edited: list[str] = []
        self.shares = build_shares(self.leases, emit=self.events.append, tenants=len(KEYS))
        self.standby = StandbyPoll(
            self.leases,
            PollTimer(),
            self.seats,
            holder_id="me",
            shares=self.shares,
            timing=TIMING,
            is_broker_answering=lambda: True,
            estimate=first.context.estimate,
            find_edited=lambda: self.edited,
            clock=self.clock,
            emit=self.events.append,
        )
        self.leases.read(KEYS)
        self.change_all(
            holder_id="other", epoch=5, expires_at_ms=self.leases.now_ms + 30_000, progressed_at_ms=self.now()
        )

    def now(self) -> int:
        return self.leases.now_ms

    def change_all(self, **columns: Any) -> None:
        for key in KEYS:
            self.leases.change(key, **columns)

    def poll(self) -> list[str]:
        """Poll; return what the store was asked."""
        del self.leases.acts.done[:]
        self.standby.poll()
        return list(self.leases.acts.done)

    def report(self, holder_id: str) -> None:
        self.leases.report_process(
            ProcessReport(holder_id=holder_id, host="h", pid=1, version="1", draining=False, tenants=[])
        )

    def step(self) -> list[str]:
        """Step each seat once; return whose leases were given away."""
        before = len(self.events.of(LeaseGiven))
        for process in self.processes.values():
            process.seat.step(process.publisher)
        return [event.tenant_key for event in self.events.of(LeaseGiven)[before:]]

    def acquired(self) -> list[str]:
        return [event.tenant_key for event in self.events.of(LeaseAcquired)]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_all_leases_are_read_once_a_heartbeat_and_else_the_notable_ones(bench: Bench) -> None:
    """The whole reading creates rows that are missing and sees what has not changed."""
    assert bench.poll() == ["read", "read_processes"]
    assert bench.poll() == ["read_notable"]
    bench.clock.advance(TIMING.heartbeat_s)
    assert bench.poll() == ["read", "read_processes"]


def test_all_leases_are_read_at_every_poll_while_some_are_given_away(bench: Bench) -> None:
    """A process that is given few at a time is not to wait for a heartbeat between them."""
    bench.change_all(holder_id=FREE, expires_at_ms=0)
    for holder_id in ("me", "other"):
        bench.report(holder_id)
    bench.poll()
    bench.clock.advance(0.01)
    bench.change_all(progressed_at_ms=bench.now())
    bench.clock.advance(TIMING.heartbeat_s)
    assert bench.poll() == ["read", "read_processes"]
    gifts = bench.step()
    assert len(gifts) == 4
    assert bench.poll() == ["read", "read_processes"]
    assert bench.step() == []
    for gift in gifts:
        bench.leases.change(gift, progressed_at_ms=bench.now() + 1)
    assert bench.poll() == ["read", "read_processes"]
    assert len(bench.step()) == 4


def test_own_first_choices_are_a_statement_of_their_own(bench: Bench) -> None:
    """The first one; what others are the first choice of comes after it."""
    for holder_id in ("me", "other"):
        bench.report(holder_id)
    bench.poll()
    bench.change_all(holder_id=FREE, expires_at_ms=0)
    assert bench.poll() == ["read_notable", "try_acquire_many", "try_acquire_many"]
    members = bench.shares.members
    firsts = [is_first_choice(key, members, holder_id="me") for key in bench.acquired()]
    assert firsts == sorted(firsts, reverse=True)
    assert len(set(firsts)) == 2


def test_lease_won_for_a_tenant_that_left_meanwhile_is_given_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its seat was there when the bid was made; the others' terms begin."""
    bench.poll()
    acquire = bench.leases.try_acquire_many

    def acquire_and_lose_a_tenant(bids: Sequence[Bid], *, holder_id: str) -> Sequence[Acquired]:
        bench.seats.remove([KEYS[3]])
        return acquire(bids, holder_id=holder_id)

    monkeypatch.setattr(bench.leases, "try_acquire_many", acquire_and_lose_a_tenant)
    bench.change_all(holder_id=FREE, expires_at_ms=0)
    bench.poll()
    assert [key for key in KEYS if bench.leases.rows[key].holder_id == FREE] == [KEYS[3]]
    assert sum(process.seat.term is not None for process in bench.processes.values()) == len(KEYS) - 1


def test_lease_that_names_this_process_is_given_back_where_it_is_nobodys(bench: Bench) -> None:
    """It was given a tenant that it does not list."""
    bench.poll()
    bench.leases.read(["stranger"])
    bench.leases.change("stranger", holder_id="me", epoch=7, acquired_at_ms=bench.now())
    bench.poll()
    assert bench.leases.rows["stranger"].holder_id == FREE


def test_many_free_leases_are_taken_by_one_statement(bench: Bench) -> None:
    """All of them."""
    bench.poll()
    bench.change_all(holder_id=FREE, expires_at_ms=0)
    bench.standby.poll()
    assert sorted(bench.acquired()) == KEYS
    assert {row.holder_id for row in bench.leases.rows.values()} == {"me"}
    assert bench.leases.acts.done.count("try_acquire_many") == 1


def test_terms_that_owe_something_begin_first(bench: Bench) -> None:
    """What is owed is done at once, in its order; the others begin when nothing is due."""
    bench.poll()
    bench.change_all(holder_id=FREE, expires_at_ms=0)
    bench.leases.change(KEYS[7], owed_since_ms=bench.now() - 1)
    bench.leases.change(KEYS[3], owed_since_ms=bench.now() - 2)
    bench.leases.change(KEYS[5], owed_since_ms=bench.now() + 4000)
    bench.standby.poll()
    assert bench.acquired()[:3] == [KEYS[3], KEYS[7], KEYS[5]]
    assert [bench.processes[key].wakes for key in (KEYS[3], KEYS[7], KEYS[5], KEYS[0])] == [1, 1, 0, 0]
    at = bench.clock.boot_time()
    assert bench.processes[KEYS[5]].wakes_by == [at + 4]
    assert bench.processes[KEYS[0]].wakes_by == [float("inf")]


def test_busy_holder_of_many_is_left_alone(bench: Bench) -> None:
    """Its progress on one lease counts for all, also where only the owed one is read."""
    bench.poll()
    bench.leases.change(KEYS[3], owed_since_ms=bench.now() - 5000, progressed_at_ms=bench.now() - 5000)
    bench.standby.poll()
    assert bench.acquired() == []
    bench.clock.advance(1.5)
    bench.standby.poll()
    assert bench.acquired() == [KEYS[3]]


def test_lease_unchanged_for_its_whole_time_is_taken_though_it_is_not_notable(bench: Bench) -> None:
    """A database clock that stepped back expires nothing; the whole readings see it."""
    bench.change_all(expires_at_ms=bench.now() + 86_400_000)
    bench.poll()
    for _ in range(4):
        bench.clock.advance(TIMING.heartbeat_s)
        bench.standby.poll()
    assert sorted(bench.acquired()) == KEYS


def test_takeover_by_another_ends_a_term_at_the_next_poll(bench: Bench) -> None:
    """A lease that was taken lately is notable."""
    bench.poll()
    process = bench.processes[KEYS[3]]
    process.seat.won(process.take_over(), bench.clock.boot_time())
    bench.leases.change(KEYS[3], holder_id="other", epoch=7, acquired_at_ms=bench.now())
    bench.standby.poll()
    assert process.seat.term is None


def test_edits_are_told_to_those_whose_they_are(bench: Bench) -> None:
    """One query for all; a tenant that is not listed here is nobody."""
    bench.poll()
    held = [bench.processes[key] for key in KEYS[:2]]
    for process in held:
        process.seat.won(process.take_over(), bench.clock.boot_time())
    bench.edited = [KEYS[1], KEYS[2], "stranger"]
    wakes = [process.wakes for process in held]
    bench.standby.poll()
    assert [process.wakes - before for process, before in zip(held, wakes, strict=True)] == [0, 1]


def test_seat_that_is_leaving_does_not_bid(bench: Bench) -> None:
    """Its tenant is no longer listed."""
    bench.poll()
    bench.processes[KEYS[3]].seat.drain()
    bench.change_all(holder_id=FREE, expires_at_ms=0)
    bench.standby.poll()
    assert sorted(bench.acquired()) == [key for key in KEYS if key != KEYS[3]]


@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000])
def test_step_of_the_databases_clock_wakes_those_who_wait_for_a_time_of_it(bench: Bench, step_ms: int) -> None:
    """When it is seen, and when three readings agree on the new time; nobody reads it for each tenant."""
    bench.poll()
    first = bench.processes[KEYS[0]]
    first.seat.won(first.take_over(), bench.clock.boot_time())
    wakes = first.wakes
    bench.leases.zero_ms += step_ms
    told = []
    for _ in range(4):
        bench.clock.advance(0.5)
        bench.standby.poll()
        told.append((first.wakes - wakes, first.context.estimate.is_trusted))
    assert told == [(1, False), (1, False), (2, True), (2, True)]
