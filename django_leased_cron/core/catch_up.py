"""What becomes of the slots of a job that have come due: fired, or skipped for a reason (I3).

A slot is *missed* when it is more than a failover late; only then does the catch-up policy decide:

* ``skip``: no missed slot fires;
* ``once``: of all slots that are due, the latest fires even if it was missed. So an outage costs a job one late firing,
  and none where a later slot is due that was not missed;
* ``all``: every missed slot fires.

Whatever the policy, missed slots due longer ago than the window do not fire, and a slot that is not missed always does.
Lateness counts from the moment a slot should have fired, its jitter included. An expired job fires nothing more,
however little late.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from django_leased_cron.core.jitter import jittered
from django_leased_cron.core.occurrence import CatchUp, SkipReason
from django_leased_cron.core.recurrence import ClockedRecurrence, CrontabRecurrence, IntervalRecurrence
from django_leased_cron.core.schedule import JobSchedule, next_due
from django_leased_cron.core.slot_count import count_slots

_LEAST_WORTH_COUNTING_MS: Final = 30 * 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Consecutive slots of one job, skipped for one reason; both ends belong to it."""

    first_due_at_ms: int
    last_due_at_ms: int
    slots: int
    reason: SkipReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Reckoning:
    """What to do about the due slots of a job, and the first slot that nothing was decided about."""

    fires: tuple[int, ...]
    skipped: tuple[Stretch, ...]
    next_due_at_ms: int | None
    walked: int = field(default=0, compare=False)
    """How many slots were visited one by one."""


def reckon(
    schedule: JobSchedule,
    *,
    next_due_at_ms: int,
    now_ms: int,
    missed_after_ms: int,
    catch_up: CatchUp,
    window_ms: int,
    most: int,
    job_id: int = 0,
    jitter_s: int = 0,
    walk_limit: int = 20_000,
) -> Reckoning:
    """Decide about the slots of a job from ``next_due_at_ms`` up to now, oldest first.

    Stops early after ``most`` fires or ``walk_limit`` slots; what is left comes with the next call. Slots missed long
    ago are counted, not walked. A one-off is done with its first fire, and its other slots are not recorded.
    """
    rules = _Rules(
        now_ms=now_ms,
        missed_after_ms=missed_after_ms,
        catch_up=catch_up,
        window_ms=window_ms,
        expired_at_ms=_find_past(schedule.expires_at_ms, now_ms=now_ms),
        job_id=job_id,
        jitter_s=jitter_s,
    )
    ledger = _Ledger()
    cursor: int | None = next_due_at_ms
    match schedule.recurrence:
        case IntervalRecurrence(every_ms=every_ms):
            cursor = _skip_in_bulk(ledger, rules, first_ms=next_due_at_ms, every_ms=every_ms)
        case CrontabRecurrence() as crontab:
            cursor = _skip_crontab_in_bulk(ledger, rules, schedule, crontab, first_ms=next_due_at_ms)
        case ClockedRecurrence():
            pass
    walked = 0
    while walked < walk_limit:
        if cursor is None or len(ledger.fires) >= most or rules.fire_at(cursor) > now_ms:
            break
        walked += 1
        following = next_due(schedule, after_ms=cursor, base_ms=cursor)
        reason = rules.judge(cursor, is_latest=following is None or following > now_ms)
        if reason is None:
            ledger.fire(cursor)
            cursor = None if schedule.one_off else following
        else:
            ledger.skip(Stretch(first_due_at_ms=cursor, last_due_at_ms=cursor, slots=1, reason=reason))
            cursor = following
    return Reckoning(fires=tuple(ledger.fires), skipped=tuple(ledger.skipped), next_due_at_ms=cursor, walked=walked)


def count_due(schedule: JobSchedule, *, next_due_at_ms: int, now_ms: int) -> tuple[int, int]:
    """Return how many slots from ``next_due_at_ms``, which is due, up to now there are, and the last of them."""
    if schedule.one_off:
        return 1, next_due_at_ms
    reckoning = reckon(
        schedule,
        next_due_at_ms=next_due_at_ms,
        now_ms=now_ms,
        missed_after_ms=-1,  # all of them
        catch_up=CatchUp.SKIP,
        window_ms=now_ms,
        most=1,
    )
    slots = sum(stretch.slots for stretch in reckoning.skipped)
    return max(slots, 1), max((stretch.last_due_at_ms for stretch in reckoning.skipped), default=next_due_at_ms)


def _find_past(at_ms: int | None, *, now_ms: int) -> int | None:
    return at_ms if at_ms is not None and at_ms <= now_ms else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    now_ms: int
    missed_after_ms: int
    catch_up: CatchUp
    window_ms: int
    expired_at_ms: int | None
    job_id: int
    jitter_s: int

    def fire_at(self, due_at_ms: int) -> int:
        if self.expired_at_ms is not None:
            return due_at_ms  # nothing fires any more, so nothing needs to be waited for
        return jittered(due_at_ms, job_id=self.job_id, jitter_s=self.jitter_s)

    def judge(self, due_at_ms: int, *, is_latest: bool) -> SkipReason | None:
        """Return why a slot is skipped, or ``None`` where it fires."""
        if self.expired_at_ms is not None:
            return SkipReason.EXPIRED
        if self.now_ms - self.fire_at(due_at_ms) <= self.missed_after_ms:
            return None
        if self.now_ms - due_at_ms > self.window_ms:
            return SkipReason.WINDOW
        if self.catch_up is CatchUp.ALL or (self.catch_up is CatchUp.ONCE and is_latest):
            return None
        return SkipReason.CATCH_UP

    @property
    def due_end_ms(self) -> int:
        """Where due slots end (exclusive)."""
        return self.now_ms + 1 if self.expired_at_ms is None else self.expired_at_ms

    def bulk_limits(self) -> Iterator[tuple[int, SkipReason]]:
        """Yield up to where (exclusive) :meth:`judge` is sure to give a reason to slots that are not the latest."""
        if self.expired_at_ms is not None:
            yield self.expired_at_ms, SkipReason.EXPIRED
            return
        missed_ms = self.now_ms - self.missed_after_ms - self.jitter_s * 1000  # whatever the jitter of the slot
        yield min(missed_ms, self.now_ms - self.window_ms), SkipReason.WINDOW
        if self.catch_up is not CatchUp.ALL:
            yield missed_ms, SkipReason.CATCH_UP


def _skip_in_bulk(ledger: _Ledger, rules: _Rules, *, first_ms: int, every_ms: int) -> int:
    """Skip what is certain without walking it; return the first slot to walk, the latest due one at most."""
    latest_ms = rules.due_end_ms - every_ms
    for limit_ms, reason in rules.bulk_limits():
        slots = -((first_ms - min(limit_ms, latest_ms)) // every_ms)
        if slots > 0:
            last_ms = first_ms + (slots - 1) * every_ms
            ledger.skip(Stretch(first_due_at_ms=first_ms, last_due_at_ms=last_ms, slots=slots, reason=reason))
            first_ms = last_ms + every_ms
    return first_ms


def _skip_crontab_in_bulk(
    ledger: _Ledger, rules: _Rules, schedule: JobSchedule, crontab: CrontabRecurrence, *, first_ms: int
) -> int | None:
    """Do the same for a crontab; return the first slot to walk, if there is one."""
    cursor: int | None = first_ms
    limits = list(rules.bulk_limits())
    if limits[-1][0] - first_ms < _LEAST_WORTH_COUNTING_MS:
        return cursor
    for limit_ms, reason in limits:
        if cursor is None or limit_ms <= cursor:
            continue
        tally = count_slots(crontab, first_ms=cursor, end_ms=limit_ms)
        if reason is SkipReason.CATCH_UP and tally.last_due_at_ms is not None:
            # It may be the latest due slot of all, which is judged otherwise.
            tally = count_slots(crontab, first_ms=cursor, end_ms=tally.last_due_at_ms)
        last_ms = tally.last_due_at_ms
        if last_ms is not None:
            ledger.skip(Stretch(first_due_at_ms=cursor, last_due_at_ms=last_ms, slots=tally.slots, reason=reason))
            cursor = next_due(schedule, after_ms=last_ms, base_ms=last_ms)
    return cursor


class _Ledger:
    """What was decided so far, in order of slots; like follows like in one stretch."""

    def __init__(self) -> None:
        self.fires: list[int] = []
        self.skipped: list[Stretch] = []
        self._may_extend = False

    def fire(self, due_at_ms: int) -> None:
        self.fires.append(due_at_ms)
        self._may_extend = False

    def skip(self, stretch: Stretch) -> None:
        if self._may_extend and self.skipped[-1].reason is stretch.reason:
            last = self.skipped[-1]
            slots = last.slots + stretch.slots
            self.skipped[-1] = replace(last, last_due_at_ms=stretch.last_due_at_ms, slots=slots)
        else:
            self.skipped.append(stretch)
        self._may_extend = True
