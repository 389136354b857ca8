"""From what is due to what a claim is asked to do about it: all schedule arithmetic, done before the transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final

from django_leased_cron.core.catch_up import reckon
from django_leased_cron.core.jitter import jittered
from django_leased_cron.core.occurrence import CatchUp, Delivery, Overlap, build_task_id
from django_leased_cron.core.outbox import Advance, Fire, PlannedJob, Window
from django_leased_cron.core.planning import parse_planned
from django_leased_cron.core.solar import SolarCalculator
from django_leased_cron.exceptions import MalformedJobError

_WALKED_AT_ONCE: Final = 5000
"""Slots that are visited for one claim, tens of milliseconds: a claim is also the progress that others wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueWork:
    """What of a window is due."""

    advances: Sequence[Advance] = ()
    requested: Sequence[int] = ()
    malformed: Sequence[tuple[PlannedJob, MalformedJobError]] = ()
    """Jobs that were planned once and cannot be any more: a time zone that is no longer known, say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRules:
    """A tenant's defaults for what a job's own policy leaves open."""

    tenant_key: str
    storage_zone: tzinfo
    missed_after_ms: int
    catch_up: CatchUp
    catch_up_window_ms: int
    delivery: Delivery
    solar_calculator: SolarCalculator | None = None
    schema: str = ""
    """The schema with the tenant's jobs, where it has one; messages name it."""

    def find_due(self, window: Window, *, now_ms: int, limit: int) -> DueWork:
        """Return what to do about the due jobs of a window, at most ``limit`` firings, the oldest first."""
        requested = window.requested[:limit]
        advances: list[Advance] = []
        malformed: list[tuple[PlannedJob, MalformedJobError]] = []
        room, walk = limit - len(requested), _WALKED_AT_ONCE
        for job in window.jobs:
            if job.fire_at_ms > now_ms or room <= 0 or walk <= 0:
                break
            try:
                advance, walked = self._advance(job, now_ms=now_ms, most=room, walk_limit=walk)
            except MalformedJobError as exc:
                malformed.append((job, exc))
                continue
            except Exception as exc:  # noqa: BLE001 - whatever this row does to our arithmetic, it harms only itself (I8)
                malformed.append((job, MalformedJobError.from_unexpected(exc)))
                continue
            advances.append(advance)
            room -= len(advance.fires)
            walk -= walked
        return DueWork(advances=advances, requested=requested, malformed=malformed)

    def _advance(self, job: PlannedJob, *, now_ms: int, most: int, walk_limit: int) -> tuple[Advance, int]:
        """Return what to do about one due job, and how many slots were visited to find it."""
        schedule = parse_planned(job.inputs, self.storage_zone, self.solar_calculator)
        window_s = job.catch_up_window_s
        reckoning = reckon(
            schedule,
            next_due_at_ms=job.next_due_at_ms,
            now_ms=now_ms,
            missed_after_ms=self.missed_after_ms,
            catch_up=CatchUp(job.catch_up) if job.catch_up else self.catch_up,
            window_ms=self.catch_up_window_ms if window_s is None else window_s * 1000,
            # The claim looks for an unfinished predecessor among the rows that are there: one at a time.
            most=1 if job.overlap == Overlap.SKIP else most,
            job_id=job.job_id,
            jitter_s=job.jitter_s,
            walk_limit=walk_limit,
        )
        next_due_at_ms = reckoning.next_due_at_ms
        advance = Advance(
            job_id=job.job_id,
            inputs=job.inputs,
            planned_due_at_ms=job.next_due_at_ms,
            fires=[
                Fire(
                    due_at_ms=due_at_ms,
                    task_id=build_task_id(tenant_key=self.tenant_key, job_id=job.job_id, due_at_ms=due_at_ms),
                )
                for due_at_ms in reckoning.fires
            ],
            skipped=reckoning.skipped,
            delivery=job.delivery or self.delivery,
            next_due_at_ms=next_due_at_ms,
            next_fire_at_ms=(
                None if next_due_at_ms is None else jittered(next_due_at_ms, job_id=job.job_id, jitter_s=job.jitter_s)
            ),
        )
        return advance, reckoning.walked
