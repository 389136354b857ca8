"""One tenant on a real database whose clock stands where a test puts it."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, TypeVar, cast

from django.db import connections, transaction
from django.db.models import Model, QuerySet
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from django_leased_cron.core.claiming import ClaimRules
from django_leased_cron.core.occurrence import CatchUp, Delivery
from django_leased_cron.core.outbox import (
    ChangeKind,
    ClaimedOccurrence,
    ClaimOrder,
    ClaimReply,
    Outcome,
    Settlement,
    TermKey,
    TermLost,
)
from django_leased_cron.core.planning import Planning
from django_leased_cron.database import build_dialect, find_storage_zone
from django_leased_cron.database.session import SessionPool
from django_leased_cron.models import JobState, Occurrence, SchedulerLease
from django_leased_cron.outbox import DatabaseOutbox
from django_leased_cron.solar import build_solar_calculator

NOW_MS: Final = 1_800_000_000_000  # 2027-01-15 08:00:00 UTC, a Friday
TTL_MS: Final = 30_000
MISSED_AFTER_MS: Final = 31_500
TENANT: Final = "acme"
_OUTBOXES_AT_ONCE: Final = 4
"""Each clock reading is an outbox with connections of its own, and the server has only so many."""
Row = TypeVar("Row", bound=Model)


class SchedulingBench:
    """Creates jobs, plans and claims them as a term would, one transaction at a time."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self._outboxes: dict[int, DatabaseOutbox] = {}
        self.zone = find_storage_zone(alias)
        self.rules = ClaimRules(
            tenant_key=TENANT,
            storage_zone=self.zone,
            missed_after_ms=MISSED_AFTER_MS,
            catch_up=CatchUp.ONCE,
            catch_up_window_ms=86_400_000,
            delivery=Delivery.AT_LEAST_ONCE,
            solar_calculator=build_solar_calculator(),
        )

    def close(self) -> None:
        for outbox in self._outboxes.values():
            outbox.close()

    def term(self, epoch: int = 1) -> TermKey:
        return TermKey(tenant_key=TENANT, holder_id="me", epoch=epoch)

    def hold_lease(self, *, epoch: int = 1, holder_id: str = "me") -> None:
        values = {"holder_id": holder_id, "epoch": epoch, "expires_at_ms": NOW_MS + TTL_MS}
        SchedulerLease.objects.using(self.alias).update_or_create(tenant_key=TENANT, defaults=values)

    @property
    def lease(self) -> SchedulerLease:
        return SchedulerLease.objects.using(self.alias).get()

    def outbox(self, now_ms: int = NOW_MS) -> DatabaseOutbox:
        if now_ms not in self._outboxes:
            if len(self._outboxes) == _OUTBOXES_AT_ONCE:
                self._outboxes.pop(min(self._outboxes)).close()
            dialect = dataclasses.replace(cast(Any, build_dialect(self.alias)), now_ms=str(now_ms))
            pool = SessionPool(self.alias, dialect)
            self._outboxes[now_ms] = DatabaseOutbox(
                pool, lease_ttl_ms=TTL_MS, missed_after_ms=MISSED_AFTER_MS, catch_up=CatchUp.ONCE
            )
        return self._outboxes[now_ms]

    # Jobs

    def every(self, seconds: int = 60, **columns: Any) -> PeriodicTask:
        return self.job(interval=self.insert(IntervalSchedule(every=seconds, period="seconds")), **columns)

    def crontab(self, minute: str = "*", **columns: Any) -> PeriodicTask:
        return self.job(crontab=self.insert(CrontabSchedule(minute=minute, timezone="UTC")), **columns)

    def job(self, **columns: Any) -> PeriodicTask:
        number = PeriodicTask.objects.using(self.alias).count() + 1
        return self.insert(PeriodicTask(**{"name": f"job {number}", "task": "project.tasks.work"} | columns))

    def insert(self, row: Row) -> Row:
        """Insert as raw SQL would: no ``full_clean``, no signals (which write to another database)."""
        rows = type(row)._default_manager.using(self.alias)
        rows.bulk_create([row])
        return rows.latest("pk")

    def jobs(self) -> list[PeriodicTask]:
        return list(PeriodicTask.objects.using(self.alias).order_by("pk"))

    def edit(self, job: PeriodicTask, **columns: Any) -> None:
        PeriodicTask.objects.using(self.alias).filter(pk=job.pk).update(**columns)

    def state(self, job: PeriodicTask) -> JobState:
        return JobState.objects.using(self.alias).get(job_id=job.pk)

    def occurrences(self, job: PeriodicTask | None = None) -> list[Occurrence]:
        rows = Occurrence.objects.using(self.alias).order_by("due_at_ms", "id")
        return list(rows if job is None else rows.filter(job_id=job.pk))

    def states(self, job: PeriodicTask | None = None) -> list[tuple[str, str, int]]:
        """Return state, reason and attempt of each occurrence, by due time."""
        return [(row.state, row.reason, row.attempt) for row in self.occurrences(job)]

    # What a term does

    def plan(
        self, now_ms: int = NOW_MS, *, epoch: int = 1, first_term: bool = False, with_flagged: bool = False
    ) -> list[ChangeKind] | TermLost:
        outbox = self.outbox(now_ms)
        changes = outbox.find_changes(after_job_id=0, limit=500, with_flagged=with_flagged)
        planning = Planning(
            storage_zone=self.zone,
            goes_on_from_last_run=first_term,
            solar_calculator=self.rules.solar_calculator,
        )
        writes = [planning.plan(c, now_ms=now_ms) for c in changes if c.kind is not ChangeKind.FINISHED]
        lost = outbox.write_plans(writes, term=self.term(epoch), predecessors_adoptable_in_ms=None)
        return lost or [change.kind for change in changes]

    def order(self, now_ms: int, *, epoch: int = 1, **extra: Any) -> ClaimOrder:
        due = self.rules.find_due(self.outbox(now_ms).read_window(500), now_ms=now_ms, limit=500)
        assert not due.malformed
        return ClaimOrder(term=self.term(epoch), advances=due.advances, requested=due.requested, **extra)

    def claim(self, now_ms: int, *, epoch: int = 1, **extra: Any) -> ClaimReply:
        reply = self.outbox(now_ms).claim(self.order(now_ms, epoch=epoch, **extra))
        assert isinstance(reply, ClaimReply)
        return reply

    def confirm(
        self, claimed: Sequence[ClaimedOccurrence], *, now_ms: int, epoch: int = 1, outcome: Outcome = Outcome.SENT
    ) -> None:
        settlements = [Settlement(claim=c.claim, outcome=outcome, at_ms=now_ms) for c in claimed]
        self.outbox(now_ms).confirm(settlements, term=self.term(epoch), predecessors_adoptable_in_ms=None)

    # Other people

    @contextmanager
    def locked_rows(self, rows: QuerySet[Any]) -> Iterator[None]:
        """Hold the rows' locks in this thread until the block ends, then commit."""
        with transaction.atomic(using=self.alias):
            list(rows.select_for_update())
            yield

    def locked_lease(self) -> AbstractContextManager[None]:
        return self.locked_rows(SchedulerLease.objects.using(self.alias))

    def in_thread(self, call: Callable[[], Any]) -> BlockedCall:
        return BlockedCall(call)


class BlockedCall:
    """A call in another thread that is expected to wait for a lock until it is let go."""

    _LONG_ENOUGH_S = 0.15

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._outcome: Any = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._thread.join(self._LONG_ENOUGH_S)

    @property
    def is_waiting(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> Any:
        self._thread.join()
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome

    def _run(self) -> None:
        try:
            self._outcome = self._call()
        except BaseException as exc:  # noqa: BLE001 - raised in result()
            self._outcome = exc
        finally:
            connections.close_all()
