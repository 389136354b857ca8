"""Two processes and one tenant, in virtual time: how late, by what failed, and nothing lost or sent twice."""

from __future__ import annotations

import pytest

from django_leased_cron.core.clock import BootTime, later
from django_leased_cron.core.events import BatchDispatched
from django_leased_cron.core.lease import ProcessReport
from django_leased_cron.lease_store.poll_timer import PollTimer
from django_leased_cron.supervision.keeper import LeaseKeeper
from django_leased_cron.supervision.seats import Seats
from django_leased_cron.supervision.standby import StandbyPoll
from tests.unit.core.job_rows import every
from tests.unit.supervision.process import TENANT, TIMING, Process, build_shares

TICK_S = 0.0625
RESCUED_WITHIN_S = 1.7
ADOPTED_WITHIN_S = 7.0
"""What is promised when a holder dies, for its next job and for the batch it had in hand."""


class Member:
    """One process of the fleet, with its loops as steps: a frozen or dead one is not stepped."""

    def __init__(self, holder_id: str, beside: Process | None) -> None:
        self.process = process = Process(holder_id=holder_id, beside=beside)
        self.is_alive = True
        self.step_at: BootTime | None = None
        self.poll_at = self.beat_at = process.clock.boot_time()
        process.on_wake = self.wake
        self.standby = StandbyPoll(
            process.leases,
            PollTimer(),
            Seats([process.seat]),
            holder_id=holder_id,
            shares=build_shares(process.leases, holder_id=holder_id, emit=process.events.append),
            timing=TIMING,
            is_broker_answering=process.publisher.is_answering,
            clock=process.clock,
            emit=process.events.append,
        )
        report = ProcessReport(holder_id=holder_id, host="h", pid=1, version="1", draining=False, tenants=[])
        self.keeper = LeaseKeeper(
            process.leases,
            [process.seat],
            holder_id=holder_id,
            timing=TIMING,
            describe=lambda: report,
            clock=process.clock,
            emit=process.events.append,
        )

    def wake(self) -> None:
        self.step_at = BootTime(0.0)

    def turn(self, at: BootTime) -> None:
        if at >= self.beat_at:
            self.keeper.beat()
            self.beat_at = later(at, TIMING.heartbeat_s)
        if at >= self.poll_at:
            self.standby.poll()
            self.poll_at = later(at, TIMING.poll_interval_s)
        while self.is_alive and self.step_at is not None and at >= self.step_at:
            self.step_at = self.process.seat.step(self.process.publisher)


class Fleet:
    """A holder and a standby, and three jobs that come due each second from the first second on."""

    def __init__(self) -> None:
        self.holder = Member("holder", None)
        self.standby = Member("standby", self.holder.process)
        self.members = [self.holder, self.standby]
        self.standby.poll_at = later(self.standby.poll_at, 0.4375)  # out of step with the due times
        self.clock, self.leases = self.holder.process.clock, self.holder.process.leases
        self.holder.process.plan(1, 2, 3, due_in_s=1, inputs=every(1))

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / TICK_S)):
            for member in self.members:
                if member.is_alive:
                    member.turn(self.clock.boot_time())
            self.clock.advance(TICK_S)

    @property
    def holder_id(self) -> str:
        return self.leases.rows[TENANT].holder_id

    def check_all_sent_once(self, *, seconds: int) -> None:
        """Every due second of every job has one message, whoever sent it."""
        ids = [message.task_id for member in self.members for message in member.process.publisher.accepted]
        assert len(ids) == len(set(ids)) == 3 * seconds

    def worst_lateness_s(self, *, adopted: bool) -> float:
        """Return how late the standby's batches were at worst: those with adopted claims in them, or the others."""
        batches = self.standby.process.events.of(BatchDispatched)
        return max((batch.worst_lateness_ms for batch in batches if (batch.adopted > 0) is adopted), default=0) / 1000


@pytest.fixture
def fleet() -> Fleet:
    fleet = Fleet()
    fleet.run(10)
    assert fleet.holder_id == "holder"
    return fleet


def test_killed_holder_is_rescued_and_the_next_job_is_hardly_late(fleet: Fleet) -> None:
    """Its lease is far from expired."""
    fleet.holder.is_alive = False
    fleet.run(10)
    assert fleet.holder_id == "standby"
    assert 1 < fleet.worst_lateness_s(adopted=False) <= RESCUED_WITHIN_S
    fleet.check_all_sent_once(seconds=19)


def test_batch_that_a_killed_holder_had_in_hand_is_sent_by_its_successor(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claimed, and killed before a word of it was written: it waits until its claimer no longer may publish it."""

    def die(*_args: object, **_kwargs: object) -> None:
        fleet.holder.is_alive = False
        raise ConnectionAbortedError

    monkeypatch.setattr(fleet.holder.process.publisher, "publish", die)
    fleet.run(10)
    assert fleet.worst_lateness_s(adopted=False) <= RESCUED_WITHIN_S
    assert TIMING.publish_timeout_s < fleet.worst_lateness_s(adopted=True) <= ADOPTED_WITHIN_S
    fleet.check_all_sent_once(seconds=19)


def test_holder_without_a_broker_is_relieved_by_one_with(fleet: Fleet) -> None:
    """Its connection alone is dead. It goes back to standby, and lives."""
    fleet.holder.process.publisher.is_down = True
    fleet.run(10)
    assert fleet.holder_id == "standby"
    assert fleet.holder.process.seat.term is None
    assert fleet.worst_lateness_s(adopted=True) <= ADOPTED_WITHIN_S
    fleet.check_all_sent_once(seconds=19)


def test_holder_that_was_frozen_for_a_minute_claims_nothing_when_it_wakes_up(fleet: Fleet) -> None:
    """It believed in its lease when it fell asleep."""
    fleet.holder.is_alive = False
    fleet.run(60)
    sent = len(fleet.holder.process.publisher.accepted)
    fleet.holder.is_alive = True
    fleet.run(10)
    assert len(fleet.holder.process.publisher.accepted) == sent
    assert fleet.holder.process.seat.term is None
    assert fleet.holder_id == "standby"
    fleet.check_all_sent_once(seconds=79)


def test_nobody_moves_while_the_broker_is_down_for_all(fleet: Fleet) -> None:
    """One batch waits, and is sent first when the broker is back; what was missed meanwhile is for catch-up."""
    for member in fleet.members:
        member.process.publisher.is_down = True
    fleet.run(20)
    assert fleet.leases.rows[TENANT].epoch == 1
    assert fleet.holder.process.outbox.states().count("claimed") == 3
    for member in fleet.members:
        member.process.publisher.is_down = False
    fleet.run(10)
    fleet.check_all_sent_once(seconds=39)


def test_idle_tenant_is_nobodys_emergency() -> None:
    """Nothing comes due for ten minutes: the lease is renewed, and stays where it is."""
    fleet = Fleet()
    fleet.holder.process.outbox.plans.clear()
    fleet.holder.process.outbox.jobs.clear()
    fleet.run(600)
    row = fleet.leases.rows[TENANT]
    assert (row.holder_id, row.epoch) == ("holder", 1)
    assert row.expires_at_ms > fleet.leases.now_ms + 19_000
