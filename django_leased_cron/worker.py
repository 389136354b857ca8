"""The worker's side: which occurrences run and how they end (``TRACK_RUNS``), and that no second copy runs.

All copies of an occurrence carry one task id and differ in their ``attempt``. The first attempt to start owns the
occurrence; the others are acknowledged and dropped. The owner's redeliveries and its Celery retries keep task id and
header, and always run. Nothing is made durable here: a run whose worker and message are both gone stays ``running``.

Projects need not change their tasks: when a worker starts, ``task.run`` of every task is wrapped, as Celery's autoretry
does. (What a signal handler raises is swallowed, and ``before_start`` is lost where a task overrides it.) The wrapper
works in the task's own database connection: a task class whose ``__call__`` opens a transaction around the run makes
the record part of it.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, TypeVar

from celery import Celery, Task, current_app
from celery.app.trace import build_tracer
from celery.exceptions import Ignore, Reject, Retry
from celery.signals import worker_process_init, worker_ready
from django.db import Error as DatabaseError
from django.db import connections
from django.db.models import Case, F, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce

from django_leased_cron.conf import get_settings
from django_leased_cron.core.occurrence import OccurrenceState
from django_leased_cron.current import CurrentOccurrence, read_occurrence
from django_leased_cron.database.now import read_now_ms
from django_leased_cron.models import Occurrence
from django_leased_cron.tenants import Tenant, entered, find_tenant

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

_MARK: Final = "is_guarded_by_leased_cron"
_BEFORE_A_RUN_ENDS: Final = (
    OccurrenceState.CLAIMED,
    OccurrenceState.SENT,
    OccurrenceState.UNCERTAIN,
    OccurrenceState.RUNNING,
)
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0
_TRIES_AT_END: Final = 6
_LONGEST_REASON: Final = 500


class Ownership(Enum):
    """Whose an occurrence is, as an attempt learns when it starts."""

    OURS = auto()
    ANOTHERS = auto()
    """Another attempt has started before."""
    UNKNOWN = auto()
    """The row is gone, purged or lost: there is nothing to write to, and nobody to be in the way of."""


# In the process that consumes, and in each child of a pool: both have registered all tasks by then and run none yet.
@worker_ready.connect
@worker_process_init.connect
def guard_worker(sender: Any, **_: Any) -> None:
    """Guard the tasks of a worker that is starting, if the settings say so."""
    if get_settings().track_runs:
        guard_tasks(getattr(sender, "app", None) or current_app, hostname=getattr(sender, "hostname", sender))


def guard_tasks(app: Celery, *, hostname: str | None = None) -> None:
    """Wrap ``run`` of every task of the app that is not wrapped yet."""
    for name, task in app.tasks.items():
        if hasattr(task.run, _MARK):
            continue
        guard_task(task)
        if task.__trace__ is not None:  # built from the bare run
            task.__trace__ = build_tracer(name, task, app.loader, hostname, app=app)


def guard_task(task: Task[Any, Any]) -> None:
    """Wrap ``run`` of one task; messages that no scheduler of ours has sent run as before."""
    run = task.run

    @functools.wraps(run)
    def guarded_run(*args: Any, **kwargs: Any) -> Any:
        occurrence = read_occurrence(task.request)
        tenant = None if occurrence is None else find_tenant(occurrence.tenant)
        if occurrence is None or tenant is None:
            return run(*args, **kwargs)
        record = RunRecord(tenant=tenant, occurrence=occurrence)
        match record.start():
            case Ownership.UNKNOWN:
                return run(*args, **kwargs)
            case Ownership.ANOTHERS:
                logger.info(
                    "Dropped a second copy of occurrence %s (attempt %s).",
                    occurrence.occurrence_id,
                    occurrence.attempt,
                    extra={"event": "run.dropped", "tenant": occurrence.tenant, "job_id": occurrence.job_id},
                )
                raise Ignore
            case Ownership.OURS:
                with _recorded(record):
                    return run(*args, **kwargs)

    setattr(guarded_run, _MARK, True)
    task.run = guarded_run  # type: ignore[method-assign]  # as Celery's autoretry does


@contextlib.contextmanager
def _recorded(record: RunRecord) -> Iterator[None]:
    """Record how the block ends; a run that is to be repeated goes on."""
    try:
        yield
    except Retry:
        raise
    except Reject as exc:
        if not exc.requeue:  # type: ignore[attr-defined]  # missing in the stubs
            record.finish(OccurrenceState.FAILED, "the task rejected its message")
        raise
    except Ignore:
        record.finish(OccurrenceState.SUCCEEDED, "the task asked for its result to be ignored")
        raise
    except Exception as exc:
        record.finish(OccurrenceState.FAILED, _describe(exc))
        raise
    record.finish(OccurrenceState.SUCCEEDED, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The row of an occurrence, as one of its attempts writes it."""

    tenant: Tenant
    occurrence: CurrentOccurrence

    @property
    def alias(self) -> str:
        return self.tenant.alias

    def start(self) -> Ownership:
        """Say that this attempt starts, unless another one has.

        That it starts proves that it was sent, whatever the row says. A row whose history has ended keeps its state.
        While the database does not answer this waits: to run could be to run twice, to drop could be to lose.
        """
        return self._insist(self._start, tries=None)

    def finish(self, state: OccurrenceState, reason: str) -> None:
        """Say how the run ended; gives up after a while, because the run has ended anyway."""
        try:
            self._insist(lambda: self._finish(state, reason), tries=_TRIES_AT_END)
        except DatabaseError:
            logger.exception(
                "Could not record the end of occurrence %s (%s).",
                self.occurrence.occurrence_id,
                state,
                extra={"event": "run.end_not_recorded", "tenant": self.occurrence.tenant},
            )

    def _start(self) -> Ownership:
        attempt = self.occurrence.attempt
        is_open = Q(state__in=_BEFORE_A_RUN_ENDS)
        sent_at_ms = Coalesce(F("sent_at_ms"), read_now_ms(self.alias))
        started_at_ms = Coalesce(F("started_at_ms"), read_now_ms(self.alias))
        matched = (
            self._row()
            .filter(Q(run_attempt=None) | Q(run_attempt=attempt))
            .update(
                run_attempt=attempt,
                # Quicker than the confirm: that it starts is the proof that it was sent.
                sent_at_ms=Case(When(is_open, then=sent_at_ms), default=F("sent_at_ms")),
                started_at_ms=Case(When(is_open, then=started_at_ms), default=F("started_at_ms")),
                state=Case(When(is_open, then=Value(OccurrenceState.RUNNING)), default=F("state")),
            )
        )
        if matched:
            return Ownership.OURS
        return Ownership.ANOTHERS if self._row().exists() else Ownership.UNKNOWN

    def _finish(self, state: OccurrenceState, reason: str) -> None:
        mine = self._row().filter(run_attempt=self.occurrence.attempt, state=OccurrenceState.RUNNING)
        mine.update(state=state, reason=reason, finished_at_ms=read_now_ms(self.alias))

    def _row(self) -> QuerySet[Occurrence]:
        # By all three: after a restore from a backup, the id alone could be another occurrence's.
        return Occurrence.objects.using(self.alias).filter(
            pk=self.occurrence.occurrence_id, job_id=self.occurrence.job_id, due_at_ms=self.occurrence.due_at_ms
        )

    def _insist(self, ask: Callable[[], Answer], *, tries: int | None) -> Answer:
        """Ask the database until it answers; with ``tries``, that often.

        Raises:
            DatabaseError: it did not, or the connection is inside a transaction, which a failure has ended.
        """
        failures = 0
        while True:
            try:
                with entered(self.tenant):
                    return ask()
            except DatabaseError as exc:
                failures += 1
                connection = connections[self.alias]
                if connection.in_atomic_block or failures == tries:
                    raise
                if failures == 1:
                    logger.error(
                        "Waiting for the database of occurrence %s: %s",
                        self.occurrence.occurrence_id,
                        exc,
                        extra={"event": "run.waiting_for_database", "tenant": self.occurrence.tenant},
                    )
                with contextlib.suppress(DatabaseError):  # broken, or what is wrong will be seen at the next try
                    connection.close()
            time.sleep(min(_FIRST_PAUSE_S * 2 ** (failures - 1), _LONGEST_PAUSE_S))


def _describe(error: Exception) -> str:
    """Return an error's type and message, as text that every database stores."""
    text = "".join(traceback.format_exception_only(error)).strip()[:_LONGEST_REASON]
    return text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
