"""The standby of a process with two tenants, and what a test does to the database behind it."""

from __future__ import annotations

from dataclasses import replace
from queue import SimpleQueue

from django_leased_cron.core.events import Event, LeaseAcquired
from django_leased_cron.core.lease import TakeoverReason
from django_leased_cron.lease_store.poll_timer import PollTimer
from django_leased_cron.supervision.seats import Seats
from django_leased_cron.supervision.standby import StandbyPoll
from tests.unit.supervision.process import TIMING, Process, build_shares


class SignallingTimer(PollTimer):
    """Says that a wait begins."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: SimpleQueue[float] = SimpleQueue()

    def wait(self, timeout_s: float) -> bool:
        self.waits.put(timeout_s)
        return super().wait(timeout_s)


class StandbyBench:
    """The standby of a process with two tenants, ``acme`` and ``umbra``, in that order."""

    def __init__(self) -> None:
        self.acme = Process()
        self.umbra = Process(tenant_key="umbra", beside=self.acme)
        self.clock, self.leases = self.acme.clock, self.acme.leases
        self.publisher = self.acme.publisher
        self.events: SimpleQueue[Event] = SimpleQueue()
        self.wake_ups = SignallingTimer()
        self.standby = self.build(poll_interval_s=0.0)

    def build(self, *, poll_interval_s: float) -> StandbyPoll:
        return StandbyPoll(
            self.leases,
            self.wake_ups,
            Seats([self.umbra.seat, self.acme.seat]),
            holder_id="me",
            shares=build_shares(self.leases, emit=self.events.put),
            timing=replace(TIMING, poll_interval_s=poll_interval_s),
            is_broker_answering=self.publisher.is_answering,
            clock=self.clock,
            emit=self.events.put,
        )

    def hold(self, tenant_key: str, *, holder_id: str = "other", owed_for_s: float | None = None) -> None:
        """Have a lease held by somebody, who owes work for so long."""
        self.leases.read([tenant_key])
        now_ms = self.leases.now_ms
        self.leases.change(
            tenant_key,
            holder_id=holder_id,
            epoch=5,
            expires_at_ms=now_ms + 30_000,
            progressed_at_ms=now_ms - 5000,
            owed_since_ms=None if owed_for_s is None else now_ms - round(owed_for_s * 1000),
        )

    def told(self) -> list[Event]:
        return [self.events.get_nowait() for _ in range(self.events.qsize())]

    def holders(self) -> list[str]:
        return [row.holder_id for _, row in sorted(self.leases.rows.items())]


def acquired(tenant_key: str, epoch: int, reason: TakeoverReason, previous: str = "other") -> LeaseAcquired:
    """Return the event of a takeover."""
    return LeaseAcquired(tenant_key=tenant_key, epoch=epoch, reason=reason, previous_holder_id=previous)
