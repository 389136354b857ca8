"""Stand-ins for tests: a clock that is moved by hand, a broker that answers as told, leases in memory.

They implement the ports of ``core``, so the engine cannot tell them from the real ones, and hours of scheduling run
in milliseconds. What is not kept: what a database does between two statements of a transaction. Each act here happens
at once or not at all; races are for tests on a real database.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, TypeVar

from django_leased_cron.core.clock import BootTime, later
from django_leased_cron.core.events import Event
from django_leased_cron.core.lease import (
    FREE,
    Acquired,
    Bid,
    HeldByOther,
    LeaseReading,
    LeaseRow,
    ProcessReport,
    Renewal,
    SeenProcess,
    TakeoverReason,
)
from django_leased_cron.core.publication import Accepted, NotStarted, Publication, PublishResult, Refused, Unknown
from django_leased_cron.exceptions import StoreError

Answer = type[Accepted] | type[Refused] | type[NotStarted] | type[Unknown]
Kind = TypeVar("Kind")

_DATABASE_ZERO_MS: Final = 1_800_000_000_000


class FakeClock:
    """Boot time that passes only when it is told to."""

    def __init__(self, at: float = 1000.0) -> None:
        self._at = BootTime(at)

    def boot_time(self) -> BootTime:
        return self._at

    def advance(self, seconds: float) -> None:
        self._at = later(self._at, seconds)


class EventLog(list[Event]):
    """Keeps what is emitted: hand its ``append`` to whatever takes an ``emit``."""

    def of(self, kind: type[Kind]) -> list[Kind]:
        """Return the events of one kind, in the order in which they happened."""
        return [event for event in self if isinstance(event, kind)]


class RecordingPublisher:
    """A broker connection that accepts everything, unless told otherwise.

    Rule P1 and the end of a batch at the first connection error are kept as by a real one.

    Attributes:
        batches: what each call was asked to publish.
        start_deadlines: the deadline of each call.
        accepted: what the broker has, in order.
        probes: how often it was asked whether the broker answers.
        is_down: nothing can be connected to: every publication is ``NotStarted``.
        seconds_each: how far the clock moves with each publication.
    """

    def __init__(self, clock: FakeClock, *, seconds_each: float = 0.0) -> None:
        self.batches: list[Sequence[Publication]] = []
        self.start_deadlines: list[BootTime] = []
        self.accepted: list[Publication] = []
        self.probes = 0
        self.is_down = False
        self.is_closed = False
        self.seconds_each = seconds_each
        self._clock = clock
        self._answers: deque[Answer] = deque()

    def answer(self, *answers: Answer) -> None:
        """Say what becomes of the next publications, one each; those after them are accepted again."""
        self._answers.extend(answers)

    def publish(self, publications: Sequence[Publication], *, start_deadline: BootTime) -> Iterator[PublishResult]:
        self.batches.append(publications)
        self.start_deadlines.append(start_deadline)
        is_lost = self.is_down
        for publication in publications:
            too_late = self._clock.boot_time() > start_deadline
            if is_lost or too_late:
                yield NotStarted(publication=publication, reason="not begun", too_late=not is_lost)
                continue
            result = self._publish_one(publication)
            is_lost = isinstance(result, NotStarted | Unknown)
            yield result

    def is_answering(self) -> bool:
        self.probes += 1
        return not self.is_down

    def close(self) -> None:
        self.is_closed = True

    def _publish_one(self, publication: Publication) -> PublishResult:
        self._clock.advance(self.seconds_each)
        answer = self._answers.popleft() if self._answers else Accepted
        if issubclass(answer, Accepted):
            self.accepted.append(publication)
            return Accepted(publication=publication, at=self._clock.boot_time())
        return answer(publication=publication, reason=f"told to be {answer.__name__}")


class Acts:
    """The acts of a stand-in for a database: one at a time, written down, and slow or failing as told.

    Attributes:
        done: the name of each act that was asked for, in order.
        seconds: how far the clock moves with each act of a name.
    """

    def __init__(self, clock: FakeClock) -> None:
        self.done: list[str] = []
        self.seconds: dict[str, float] = {}
        self._clock = clock
        self._lock = threading.RLock()
        self._lost_requests: defaultdict[str, list[StoreError]] = defaultdict(list)
        self._lost_replies: defaultdict[str, list[StoreError]] = defaultdict(list)

    def lose_request(self, name: str, error: StoreError, *, times: int = 1) -> None:
        """Fail the next acts of this name before they have changed anything."""
        self._lost_requests[name] += [error] * times

    def lose_reply(self, name: str, error: StoreError, *, times: int = 1) -> None:
        """Fail the next acts of this name after they have been done."""
        self._lost_replies[name] += [error] * times

    @contextmanager
    def act(self, name: str) -> Iterator[None]:
        """Do one act in the body: alone, and wholly or not at all."""
        with self._lock:
            self.done.append(name)
            self._clock.advance(self.seconds.get(name, 0.0))
            if self._lost_requests[name]:
                raise self._lost_requests[name].pop()
            yield
            if self._lost_replies[name]:
                raise self._lost_replies[name].pop()


class InMemoryLeaseStore:
    """The leases of one database, without the database; see the port ``LeaseStore``.

    Any number of processes may share one. Its clock goes with the boot time of the ``clock``.

    Attributes:
        rows: the lease rows by tenant key, to look at and to change.
        processes: what live processes last said of themselves, by holder id.
        seen_at_ms: when they said so.
        locked: tenants whose row somebody else has locked: renewals pass them over.
        zero_ms: the database's clock at boot time 0; a test that changes it steps that clock.
        acts: what was done, and what is to fail.
    """

    def __init__(
        self,
        clock: FakeClock,
        *,
        alias: str = "default",
        lease_ttl_ms: int = 30_000,
        rescue_after_ms: int | None = 1000,
    ) -> None:
        self.alias = alias
        self.rows: dict[str, LeaseRow] = {}
        self.processes: dict[str, ProcessReport] = {}
        self.seen_at_ms: dict[str, int] = {}
        self.locked: set[str] = set()
        self.zero_ms = _DATABASE_ZERO_MS
        self.acts = Acts(clock)
        self.lease_ttl_ms = lease_ttl_ms
        self._rescue_after_ms = rescue_after_ms
        self._clock = clock

    @property
    def now_ms(self) -> int:
        """The database's clock."""
        return self.zero_ms + round(self._clock.boot_time() * 1000)

    def read(self, tenant_keys: Sequence[str]) -> LeaseReading:
        with self.acts.act("read"):
            for tenant_key in tenant_keys:
                if tenant_key not in self.rows:
                    self.rows[tenant_key] = _free_row(tenant_key)
            return LeaseReading(now_ms=self.now_ms, leases={key: self.rows[key] for key in tenant_keys})

    def read_notable(self, *, within_ms: int) -> LeaseReading:
        with self.acts.act("read_notable"):
            progress: dict[str, int] = {}
            for row in self.rows.values():
                progress[row.holder_id] = max(row.progressed_at_ms, progress.get(row.holder_id, 0))
            return LeaseReading(now_ms=self.now_ms, leases=dict(self.rows), progress=progress)

    def try_acquire(self, seen: LeaseRow, *, holder_id: str, reason: TakeoverReason) -> Acquired | HeldByOther:
        with self.acts.act("try_acquire"):
            return self._acquire(Bid(row=seen, reason=reason), holder_id)

    def try_acquire_many(self, bids: Sequence[Bid], *, holder_id: str) -> Sequence[Acquired]:
        with self.acts.act("try_acquire_many"):
            outcomes = [self._acquire(bid, holder_id) for bid in bids if bid.row.tenant_key not in self.locked]
            return [outcome for outcome in outcomes if isinstance(outcome, Acquired)]

    def renew(self, *, holder_id: str, epochs: Mapping[str, int]) -> Renewal:
        with self.acts.act("renew"):
            ours = {key for key, epoch in epochs.items() if self.is_held(key, holder_id=holder_id, epoch=epoch)}
            for tenant_key in ours - self.locked:
                self.change(tenant_key, expires_at_ms=self.now_ms + self.lease_ttl_ms)
            return Renewal(
                renewed=frozenset(ours - self.locked),
                lost=frozenset(epochs.keys() - ours),
                busy=frozenset(ours & self.locked),
            )

    def release(self, *, tenant_key: str, holder_id: str, epoch: int) -> bool:
        with self.acts.act("release"):
            is_ours = self.is_held(tenant_key, holder_id=holder_id, epoch=epoch)
            if is_ours:
                self.change(tenant_key, holder_id=FREE, expires_at_ms=0, hand_over_requested_at_ms=None)
            return is_ours

    def request_hand_over(self, seen: LeaseRow) -> bool:
        with self.acts.act("request_hand_over"):
            is_ours = self.is_held(seen.tenant_key, holder_id=seen.holder_id, epoch=seen.epoch)
            is_held = is_ours and self.rows[seen.tenant_key].expires_at_ms > self.now_ms
            if is_held:
                self.change(seen.tenant_key, hand_over_requested_at_ms=self.now_ms)
            return is_held

    def hand_over(self, *, tenant_key: str, holder_id: str, epoch: int, successor_id: str) -> bool:
        with self.acts.act("hand_over"):
            now_ms = self.now_ms
            successor = self.processes.get(successor_id)
            is_there = successor is not None and not successor.draining
            if not (
                is_there
                and self.seen_at_ms[successor_id] >= now_ms - self.lease_ttl_ms
                and self.is_held(tenant_key, holder_id=holder_id, epoch=epoch)
            ):
                return False
            self.change(
                tenant_key,
                holder_id=successor_id,
                epoch=epoch + 1,
                acquired_at_ms=now_ms,
                expires_at_ms=now_ms + self.lease_ttl_ms,
                progressed_at_ms=now_ms,
                hand_over_requested_at_ms=None,
            )
            return True

    def read_processes(self) -> Sequence[SeenProcess]:
        with self.acts.act("read_processes"):
            return [
                SeenProcess(
                    holder_id=holder_id,
                    last_seen_at_ms=self.seen_at_ms[holder_id],
                    draining=report.draining,
                    tenants=frozenset(report.tenants),
                )
                for holder_id, report in self.processes.items()
            ]

    def report_process(self, report: ProcessReport) -> None:
        with self.acts.act("report_process"):
            self.processes[report.holder_id] = report
            self.seen_at_ms[report.holder_id] = self.now_ms

    def forget_process(self, *, holder_id: str) -> None:
        with self.acts.act("forget_process"):
            self.processes.pop(holder_id, None)

    def close(self) -> None:
        with self.acts.act("close"):
            pass

    def is_held(self, tenant_key: str, *, holder_id: str, epoch: int) -> bool:
        """Return whether the row names this very term."""
        row = self.rows.get(tenant_key)
        return row is not None and (row.holder_id, row.epoch) == (holder_id, epoch)

    def change(self, tenant_key: str, **columns: Any) -> None:
        """Write columns of a row that is there."""
        self.rows[tenant_key] = replace(self.rows[tenant_key], **columns)

    def _acquire(self, bid: Bid, holder_id: str) -> Acquired | HeldByOther:
        seen, now_ms = bid.row, self.now_ms
        if self.rows.get(seen.tenant_key) != seen or not self._still_applies(bid.reason, seen, now_ms):
            return HeldByOther(tenant_key=seen.tenant_key)
        self.rows[seen.tenant_key] = replace(
            seen,
            holder_id=holder_id,
            epoch=seen.epoch + 1,
            acquired_at_ms=now_ms,
            expires_at_ms=now_ms + self.lease_ttl_ms,
            progressed_at_ms=now_ms,
            hand_over_requested_at_ms=None,
        )
        return Acquired(tenant_key=seen.tenant_key, epoch=seen.epoch + 1, now_ms=now_ms)

    def _still_applies(self, reason: TakeoverReason, row: LeaseRow, now_ms: int) -> bool:
        match reason:
            case TakeoverReason.FREE:
                return row.holder_id == FREE
            case TakeoverReason.EXPIRED:
                return row.expires_at_ms <= now_ms
            case TakeoverReason.UNCHANGED:
                return True
            case TakeoverReason.RESCUE:
                if self._rescue_after_ms is None or row.owed_since_ms is None:
                    return False
                return max(row.owed_since_ms, row.progressed_at_ms) <= now_ms - self._rescue_after_ms


def _free_row(tenant_key: str) -> LeaseRow:
    return LeaseRow(
        tenant_key=tenant_key,
        holder_id=FREE,
        epoch=0,
        acquired_at_ms=0,
        expires_at_ms=0,
        progressed_at_ms=0,
        owed_since_ms=None,
    )
