"""Two processes and one tenant, in virtual time: how late, by what failed, and nothing lost or sent twice."""

from __future__ import annotations

from collections import Counter

import pytest

from django_leased_cron.core.clock import BootTime, later
from django_leased_cron.core.lease import ProcessReport
from django_leased_cron.core.publication import Publication
from django_leased_cron.exceptions import CommitOutcomeUnknownError
from django_leased_cron.lease_store.poll_timer import PollTimer
from django_leased_cron.supervision.keeper import LeaseKeeper
from django_leased_cron.supervision.standby import StandbyPoll
from tests.unit.core.job_rows import every
from tests.unit.supervision.process import TENANT, TIMING, Process

TICK_S = 0.0625
RESCUED_WITHIN_S = 1.7
ADOPTED_WITHIN_S = 7.0
LOST = CommitOutcomeUnknownError("default", "the process is gone before the reply is there")


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
            [process.seat],
            holder_id=holder_id,
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
        while self.step_at is not None and at >= self.step_at:
            self.step_at = self.process.seat.step(self.process.publisher)


class Fleet:
    """A holder and a standby, and three jobs that come due each second from the first second on."""

    def __init__(self) -> None:
        self.holder = Member("holder", None)
        self.standby = Member("standby", self.holder.process)
        self.members = [self.holder, self.standby]
        self.clock, self.leases = self.holder.process.clock, self.holder.process.leases
        self.started_at = self.clock.boot_time()
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

    def accepted(self) -> list[Publication]:
        return [publication for member in self.members for publication in member.process.publisher.accepted]

    def check_all_sent_once(self, seconds: int) -> None:
        """Every due second of every job has one message, whoever sent it."""
        counts = Counter(publication.task_id for publication in self.accepted())
        assert set(counts.values()) == {1}
        assert len(counts) == 3 * seconds


@pytest.fixture
def fleet() -> Fleet:
    fleet = Fleet()
    fleet.run(10)
    assert fleet.holder_id == "holder"
    return fleet


def lateness_s(fleet: Fleet, *, of_attempt: int) -> float:
    """Return the worst lateness of the standby's batches, of fresh or of adopted work."""
    worst = 0.0
    for publication, at in zip(fleet.standby.process.publisher.accepted, fleet.standby.process.sent_at, strict=True):
        if publication.attempt == of_attempt:
            row = fleet.holder.process.outbox.occurrences[publication.occurrence_id]
            worst = max(worst, (fleet.leases.zero_ms + at * 1000 - row.due_at_ms) / 1000)
    return worst


def test_killed_holder_is_rescued_and_the_next_job_is_hardly_late(fleet: Fleet) -> None:
    """Its lease is far from expired."""
    fleet.holder.is_alive = False
    fleet.run(10)
    assert fleet.holder_id == "standby"
    assert 0 < lateness_s(fleet, of_attempt=1) <= RESCUED_WITHIN_S
    fleet.check_all_sent_once(19)


def test_batch_that_the_holder_had_in_hand_is_sent_by_the_next(fleet: Fleet) -> None:
    """Claimed, and killed before a word of it was written: it waits until its claimer no longer may."""
    fleet.holder.process.outbox.acts.lose_reply("claim", LOST)
    while not fleet.holder.process.outbox.orders[-1].read_back:
        fleet.run(TICK_S)
        if fleet.holder.process.events and fleet.holder.process.count("claim") and in_hand(fleet):
            break
    fleet.holder.is_alive = False
    fleet.run(12)
    assert 0 < lateness_s(fleet, of_attempt=1) <= RESCUED_WITHIN_S
    assert TIMING.publish_timeout_s < lateness_s(fleet, of_attempt=2) <= ADOPTED_WITHIN_S
    assert not in_hand(fleet)
