"""What was published and is not yet recorded; it outlives the term that published it (P2)."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence

from django_leased_cron.core.clock import BootTime, Clock, later
from django_leased_cron.core.outbox import JobRun, Outbox, Settlement, TermKey, UnconfirmedClaim
from django_leased_cron.exceptions import CommitOutcomeUnknownError, StoreError
from django_leased_cron.supervision.outage import OutageWatch

_CONFIRMED_AT_ONCE = 500
_RUNS_RETRY_S = 1.0


class Confirmer:
    """Records outcomes of one tenant until the database has them.

    A settlement leaves the list only when a confirm was committed: sent again, it matches nothing and does no harm.
    One whose row somebody else has locked is tried again now and then, and holds nothing up.
    Runs, which are increments, are never sent again after a commit of unknown outcome.

    One thread flushes while another, which publishes, adds.
    """

    def __init__(self, outbox: Outbox, *, clock: Clock, outage: OutageWatch, locked_retry_s: float = 0.4) -> None:
        self._outbox = outbox
        self._clock = clock
        self._outage = outage
        self._locked_retry_s = locked_retry_s
        self._lock = threading.Lock()  # of the lists below; never held while the database is asked
        self._settlements: defaultdict[TermKey, list[Settlement]] = defaultdict(list)
        self._locked: defaultdict[TermKey, list[Settlement]] = defaultdict(list)
        self._locked_not_before = BootTime(0.0)
        self._runs: dict[int, JobRun] = {}
        self._runs_not_before = BootTime(0.0)

    @property
    def is_empty(self) -> bool:
        """Whether every outcome is recorded."""
        with self._lock:
            return not self._settlements and not self._locked

    @property
    def retry_at(self) -> BootTime | None:
        """When what another's lock holds up is tried again; ``None``: there is no such thing."""
        return self._locked_not_before if self._locked else None

    def names(self, term: TermKey) -> frozenset[tuple[int, int]]:
        """Return (occurrence id, attempt) of what this term published and the database has not recorded."""
        with self._lock:
            waiting = [*self._settlements.get(term, ()), *self._locked.get(term, ())]
        return frozenset((each.claim.occurrence_id, each.claim.attempt) for each in waiting)

    @property
    def claims(self) -> frozenset[UnconfirmedClaim]:
        """What is on the list, whichever term published it."""
        with self._lock:
            lists = [*self._settlements.values(), *self._locked.values()]
            return frozenset(settlement.claim for waiting in lists for settlement in waiting)

    def add(self, term: TermKey, settlements: Sequence[Settlement], runs: Sequence[JobRun]) -> None:
        with self._lock:
            if settlements:
                self._settlements[term].extend(settlements)
            for run in runs:
                self._add_run(run)

    def flush(self, *, predecessors_adoptable_in_ms: int | None) -> None:
        """Confirm everything; raises ``StoreError`` where the database does not."""
        self._take_up_locked()
        while waiting := self._find_waiting():
            term, settlements = waiting
            locked = self._outbox.confirm(
                settlements, term=term, predecessors_adoptable_in_ms=predecessors_adoptable_in_ms
            )
            self._note_confirmed(term, len(settlements), locked)
        self._record_runs()

    def _find_waiting(self) -> tuple[TermKey, Sequence[Settlement]] | None:
        with self._lock:
            for term, settlements in self._settlements.items():
                return term, settlements[:_CONFIRMED_AT_ONCE]
        return None

    def _note_confirmed(self, term: TermKey, count: int, locked: Sequence[Settlement]) -> None:
        with self._lock:
            left = self._settlements.pop(term)[count:]
            if left:
                self._settlements[term] = left
            if locked:
                self._locked[term].extend(locked)

    def _take_up_locked(self) -> None:
        """Try what was locked again after a while: each try is also the progress that keeps a rescue away."""
        at = self._clock.boot_time()
        if not self._locked or at < self._locked_not_before:
            return
        self._locked_not_before = later(at, self._locked_retry_s)
        with self._lock:
            for term, locked in self._locked.items():
                self._settlements[term].extend(locked)
            self._locked.clear()

    def _add_run(self, run: JobRun) -> None:
        """Merge what is owed to one job: an editor's lock of an hour must not become thousands of transactions."""
        owed = self._runs.get(run.job_id)
        if owed is not None:
            run = JobRun(
                job_id=run.job_id,
                runs=owed.runs + run.runs,
                last_run_at_ms=max(owed.last_run_at_ms, run.last_run_at_ms),
                finished=owed.finished or run.finished,
            )
        self._runs[run.job_id] = run

    def _record_runs(self) -> None:
        if not self._runs:
            self._outage.worked()
            return
        at = self._clock.boot_time()
        if at < self._runs_not_before:
            return
        with self._lock:
            owed, self._runs = self._runs, {}
        groups: defaultdict[int, list[JobRun]] = defaultdict(list)
        for run in owed.values():
            groups[run.last_run_at_ms].append(run)
        left = [run for runs in groups.values() for run in self._record(runs)]
        if left:
            self._runs_not_before = later(at, _RUNS_RETRY_S)
            with self._lock:
                for run in left:
                    self._add_run(run)

    def _record(self, runs: Sequence[JobRun]) -> Sequence[JobRun]:
        """Return those that are to be made up later."""
        try:
            left = self._outbox.record_runs(runs)
        except CommitOutcomeUnknownError as exc:
            self._outage.failed(exc)
            return ()
        except StoreError as exc:
            # Bookkeeping for django-celery-beat's columns: it must not hold up a claim.
            self._outage.failed(exc)
            return runs
        self._outage.worked()
        return left
