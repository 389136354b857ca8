"""What to plan for a job whose row no longer fits its plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import lru_cache
from typing import assert_never

from django_leased_cron.core.catch_up import count_due
from django_leased_cron.core.jitter import jittered
from django_leased_cron.core.message import check_message
from django_leased_cron.core.occurrence import SkipReason
from django_leased_cron.core.outbox import ChangedJob, ChangeKind, PlanWrite
from django_leased_cron.core.planning_inputs import PlanningInputs
from django_leased_cron.core.schedule import (
    JobSchedule,
    first_due,
    has_same_timetable,
    next_due,
    parse_instant,
    reading_ms,
)
from django_leased_cron.core.schedule import parse_schedule as _parse_schedule
from django_leased_cron.core.solar import SolarCalculator
from django_leased_cron.exceptions import MalformedJobError

_DISTINCT_SCHEDULES = 10_000
_LONGEST_LOOK_BACK_MS = 366 * 86_400_000


@lru_cache(maxsize=_DISTINCT_SCHEDULES)
def parse_planned(inputs: str, storage_zone: tzinfo, solar_calculator: SolarCalculator | None = None) -> JobSchedule:
    """Parse planning inputs, once per distinct text: thousands of jobs share a schedule.

    Raises:
        MalformedJobError: see ``core.schedule.parse_schedule``.
    """
    return _parse_schedule(PlanningInputs.split(inputs), storage_zone=storage_zone, solar_calculator=solar_calculator)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """Slots later than ``after_ms`` are due; ``base_ms`` is one of an interval's cadence."""

    after_ms: int
    base_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    """The rules for one pass over a tenant's jobs.

    Attributes:
        goes_on_from_last_run: the tenant was never scheduled by this app before. Only then does a new plan start from
            the job's ``last_run_at``, so that a move from ``DatabaseScheduler`` neither repeats nor loses a firing;
            for a job that it has not run yet, from the latest run of any.
        seen_within_ms: how long it may take until somebody sees a job that was saved.
    """

    storage_zone: tzinfo
    goes_on_from_last_run: bool
    solar_calculator: SolarCalculator | None = None
    seen_within_ms: int = 0

    def parse(self, inputs: str) -> JobSchedule:
        """Parse planning inputs; ``MalformedJobError`` where they cannot be planned."""
        return parse_planned(inputs, self.storage_zone, self.solar_calculator)

    def plan(self, change: ChangedJob, *, now_ms: int, looked_at_ms: int | None = None) -> PlanWrite:
        """Return the plan that fits the row. Enabling or editing a job plans from now: nothing fires for the past.

        Args:
            looked_at_ms: when this term looked last, and the change was not there; ``None``: it is its first look.
        """
        match change.kind:
            case ChangeKind.DELETED:
                write = _write(change, because=SkipReason.DELETED, delete=True)
            case ChangeKind.DISABLED:
                write = _write(change, because=SkipReason.DISABLED)
            case ChangeKind.REFORMATTED:
                write = _write(
                    change, because=SkipReason.RESCHEDULED, inputs=change.inputs, next_due_at_ms=change.next_due_at_ms
                )
            case (
                ChangeKind.NEW | ChangeKind.EDITED | ChangeKind.RUN_BY_OTHER | ChangeKind.FLAGGED | ChangeKind.FINISHED
            ):
                write = self._plan_from_row(change, now_ms=now_ms, looked_at_ms=looked_at_ms)
            case _:
                assert_never(change.kind)
        return self._account_for_replaced(write, now_ms=now_ms)

    def _account_for_replaced(self, write: PlanWrite, *, now_ms: int) -> PlanWrite:
        """Count the due slots that the write replaces: an outage may have left many (I3)."""
        first_ms = write.replaced_due_at_ms
        if first_ms is None or first_ms > now_ms or first_ms == write.next_due_at_ms:
            return write
        try:
            slots, last_ms = count_due(self.parse(write.replaced_inputs), next_due_at_ms=first_ms, now_ms=now_ms)
        except Exception:  # noqa: BLE001 - what it was planned from can no longer be read: the first is certain
            return write
        return replace(write, replaced_slots=slots, replaced_last_due_at_ms=last_ms)

    def _plan_from_row(self, change: ChangedJob, *, now_ms: int, looked_at_ms: int | None) -> PlanWrite:
        try:
            return self._plan_well_formed(change, now_ms=now_ms, looked_at_ms=looked_at_ms)
        except MalformedJobError as exc:
            return flag(change, exc)
        except Exception as exc:  # noqa: BLE001 - whatever this row does to our arithmetic, it harms only itself (I8)
            return flag(change, MalformedJobError.from_unexpected(exc))

    def _plan_well_formed(self, change: ChangedJob, *, now_ms: int, looked_at_ms: int | None) -> PlanWrite:
        schedule = self.parse(change.inputs)
        check_message(args=change.args, kwargs=change.kwargs, headers=change.headers)
        last_run_at_ms = self._read_instant("last_run_at", change.last_run_at)
        known_run_at_ms = reading_ms(
            now_ms if last_run_at_ms is None else last_run_at_ms, storage_zone=self.storage_zone
        )
        return _write(
            change,
            because=SkipReason.RESCHEDULED,
            inputs=change.inputs,
            next_due_at_ms=self._find_next(
                change, schedule, last_run_at_ms=last_run_at_ms, now_ms=now_ms, looked_at_ms=looked_at_ms
            ),
            known_run_at_ms=known_run_at_ms,
        )

    def _find_next(
        self,
        change: ChangedJob,
        schedule: JobSchedule,
        *,
        last_run_at_ms: int | None,
        now_ms: int,
        looked_at_ms: int | None,
    ) -> int | None:
        if change.kind in (ChangeKind.NEW, ChangeKind.RUN_BY_OTHER):
            if schedule.one_off and change.total_run_count > 0:
                return None  # another scheduler ran it, and would have switched it off at its next slot
            since = self._find_start(change, last_run_at_ms=last_run_at_ms, now_ms=now_ms)
            if since is not None:
                base_ms = since.base_ms if schedule.start_at_ms is None else schedule.start_at_ms
                return next_due(schedule, after_ms=since.after_ms, base_ms=base_ms)
        if (
            change.kind is ChangeKind.EDITED
            and change.next_due_at_ms is not None
            and self._keeps_slot(change, schedule)
        ):
            return change.next_due_at_ms
        beginning_ms = self._find_beginning(change, now_ms=now_ms, looked_at_ms=looked_at_ms)
        return first_due(schedule, now_ms=beginning_ms, anchor_ms=None)

    def _find_beginning(self, change: ChangedJob, *, now_ms: int, looked_at_ms: int | None) -> int:
        """Return since when a job is to be scheduled: a new one since it was saved, as if it had been seen at once.

        A job saved shortly before it is due must not miss that because its holder has just died, or was about to look.
        Only for so long as a failover may take: an older time, or one of a host whose clock is ahead, says nothing.
        """
        was_ever_planned = change.planned_inputs or change.last_run_at or change.total_run_count
        if change.kind is not ChangeKind.NEW or was_ever_planned:
            return now_ms
        saved_at_ms = self._read_instant("date_changed", change.date_changed)
        if saved_at_ms is None or not now_ms - self.seen_within_ms <= saved_at_ms <= now_ms:
            return now_ms
        # Saved disabled and enabled later by a way that leaves the time alone, say: it was not there at the last look.
        return saved_at_ms if looked_at_ms is None else min(max(saved_at_ms, looked_at_ms), now_ms)

    def _find_start(self, change: ChangedJob, *, last_run_at_ms: int | None, now_ms: int) -> _Start | None:
        """Return where another scheduler left a job; ``None``: nowhere, it starts from now."""
        if change.kind is ChangeKind.NEW and not self.goes_on_from_last_run:
            return None
        earliest_ms = now_ms - _LONGEST_LOOK_BACK_MS
        if last_run_at_ms is not None:
            # Some write "never" as the year 1: nothing that long ago is anybody's to catch up.
            start = _Start(after_ms=max(last_run_at_ms, earliest_ms), base_ms=last_run_at_ms)
        else:
            # It has not come due there yet, counted from its row's last change; and that scheduler went on until its
            # latest run at least. So what is due between then and now is left to us.
            latest_ms = self._read_instant("last_run_at", change.latest_run_at)
            changed_at_ms = self._read_instant("date_changed", change.date_changed)
            if latest_ms is None or latest_ms < earliest_ms or changed_at_ms is None:
                return None
            start = _Start(after_ms=max(latest_ms, changed_at_ms), base_ms=changed_at_ms)
        return start if start.after_ms <= now_ms else None

    def _keeps_slot(self, change: ChangedJob, schedule: JobSchedule) -> bool:
        """Return whether only expiry or one-off changed: the cadence of an interval must not start again from now."""
        try:
            before = self.parse(change.planned_inputs)
        except MalformedJobError:
            return False
        if not has_same_timetable(before, schedule):
            return False
        due_at_ms = change.next_due_at_ms
        return schedule.expires_at_ms is None or (due_at_ms is not None and due_at_ms < schedule.expires_at_ms)

    def _read_instant(self, column: str, text: str | None) -> int | None:
        if not text:
            return None
        try:
            return parse_instant(column, text, storage_zone=self.storage_zone)
        except MalformedJobError:
            return None  # nobody's schedule: as if it were not there


def flag(change: ChangedJob, error: MalformedJobError) -> PlanWrite:
    """Return the write that un-plans a malformed job and says why; its own row is not altered."""
    return _write(
        change,
        because=SkipReason.MALFORMED,
        inputs=change.inputs,
        error=str(error),
        message_digest=change.message_digest,
    )


def flag_planned(
    *,
    job_id: int,
    inputs: str,
    next_due_at_ms: int | None,
    error: MalformedJobError,
    message_digest: str = "",
) -> PlanWrite:
    """Return the write that un-plans a job that was planned and then found malformed."""
    return PlanWrite(
        job_id=job_id,
        replaced_inputs=inputs,
        replaced_due_at_ms=next_due_at_ms,
        replaced_because=SkipReason.MALFORMED,
        inputs=inputs,
        next_due_at_ms=None,
        fire_at_ms=None,
        known_run_at_ms=None,
        error=str(error),
        message_digest=message_digest,
    )


def _write(
    change: ChangedJob,
    *,
    because: SkipReason,
    inputs: str = "",
    next_due_at_ms: int | None = None,
    known_run_at_ms: int | None = None,
    error: str = "",
    message_digest: str = "",
    delete: bool = False,
) -> PlanWrite:
    fire_at_ms = (
        None if next_due_at_ms is None else jittered(next_due_at_ms, job_id=change.job_id, jitter_s=change.jitter_s)
    )
    return PlanWrite(
        job_id=change.job_id,
        replaced_inputs=change.planned_inputs,
        replaced_due_at_ms=change.next_due_at_ms,
        replaced_because=because,
        inputs=inputs,
        next_due_at_ms=next_due_at_ms,
        fire_at_ms=fire_at_ms,
        known_run_at_ms=known_run_at_ms,
        error=error,
        message_digest=message_digest,
        delete=delete,
    )
