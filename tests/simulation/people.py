"""People who add, change and delete jobs; what they want is kept beside the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from django_leased_cron.models import JobPolicy
from tests.simulation.drawing import INTERVALS_S, POLICIES, SHARE_OF_INTERVALS, ZONES, draw_crontab
from tests.simulation.edited_rows import EditedRows, to_columns
from tests.simulation.process import CATCH_UP, WINDOW_S
from tests.simulation.simulated_time import SimulatedTime
from tests.simulation.timeline import CrontabPlan, Definition, Edited, Happening, IntervalPlan, Plan


@dataclass(slots=True)
class _Row:
    """A job's row as it was written last."""

    kind: str
    schedule_id: int
    enabled: bool
    catch_up: str
    window_s: int


class People:
    """Adds, changes and deletes, and tells the timeline what people want by then.

    Attributes:
        crontabs: every crontab that a job has ever had.
        edits: how many edits were made.
    """

    def __init__(
        self, alias: str, *, random: Random, zones: int, time: SimulatedTime, timeline: list[Happening]
    ) -> None:
        self.crontabs: set[CrontabPlan] = set()
        self.edits = 0
        self._alias = alias
        self._random = random
        self._rows = EditedRows(alias, random=random)
        self._zones = ZONES[:zones]
        self._time = time
        self._timeline = timeline
        self._jobs: dict[int, _Row] = {}
        self._schedules: dict[str, dict[int, Plan]] = {"crontab": {}, "interval": {}}
        self._added = 0

    def add_schedules(self, crontabs: int) -> None:
        """Add the rows that jobs will share."""
        plans = [draw_crontab(self._random, self._zones) for _ in range(crontabs)]
        rows = [CrontabSchedule(**to_columns(plan), timezone=plan.zone) for plan in plans]
        CrontabSchedule.objects.using(self._alias).bulk_create(rows)
        self._schedules["crontab"] = {row.pk: plan for row, plan in zip(rows, plans, strict=True)}
        intervals = [IntervalSchedule(every=every_s, period=IntervalSchedule.SECONDS) for every_s in INTERVALS_S]
        IntervalSchedule.objects.using(self._alias).bulk_create(intervals)
        self._schedules["interval"] = {row.pk: IntervalPlan(every_s=row.every) for row in intervals}

    def add_jobs(self, count: int) -> None:
        rows = []
        jobs = []
        policies = []
        for _ in range(count):
            self._added += 1
            kind, schedule_id = self._draw_schedule()
            row = _Row(kind, schedule_id, self._random.random() < 0.95, CATCH_UP, WINDOW_S)
            columns = {f"{kind}_id": schedule_id, "enabled": row.enabled}
            jobs.append(PeriodicTask(name=f"job {self._added}", task="work", **columns))
            rows.append(row)
            policies.append(self._random.choice(POLICIES))
        PeriodicTask.objects.using(self._alias).bulk_create(jobs)
        for job, row, policy in zip(jobs, rows, policies, strict=True):
            if policy is not None:
                catch_up, window_s = policy
                JobPolicy.objects.using(self._alias).bulk_create(
                    [JobPolicy(job_id=job.pk, catch_up=catch_up, catch_up_window_s=window_s)]
                )
                row.catch_up = catch_up or CATCH_UP
                row.window_s = WINDOW_S if window_s is None else window_s
            self._jobs[job.pk] = row
        self._tell(job.pk for job in jobs)

    def edit(self) -> None:
        """Do one of the things that people do."""
        self.edits += 1
        kinds: Sequence[tuple[int, Callable[[], None]]] = (
            (6, self._switch),
            (2, self._switch_to_and_fro),
            (6, self._move),
            (3, self._change_other_column),
            (3, self._edit_crontab),
            (2, self._change_zone),
            (1, self._edit_interval),
            (2, self._delete_job),
            (2, lambda: self.add_jobs(1)),
            (1, self._delete_crontab),
        )
        self._random.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])[0]()

    # What people do

    def _switch(self) -> None:
        job_id, row = self._draw_job()
        # More are off than on in the end, were it not for this.
        row.enabled = not row.enabled or self._random.random() < 0.3
        self._rows.write_job(job_id, enabled=row.enabled)
        self._tell([job_id])

    def _switch_to_and_fro(self) -> None:
        """Switch a job off and on before anybody can have looked: as if nothing had been."""
        job_id, row = self._draw_job()
        self._rows.write_job(job_id, enabled=not row.enabled)
        self._rows.write_job(job_id, enabled=row.enabled)

    def _move(self) -> None:
        job_id, row = self._draw_job()
        row.kind, row.schedule_id = self._draw_schedule()
        columns: dict[str, Any] = {"crontab_id": None, "interval_id": None}
        self._rows.write_job(job_id, **columns | {f"{row.kind}_id": row.schedule_id})
        self._tell([job_id])

    def _change_other_column(self) -> None:
        """Change what has nothing to do with time: the plan must not move."""
        job_id, _ = self._draw_job()
        self._rows.write_job(job_id, args=f"[{self._random.randrange(1000)}]")

    def _edit_crontab(self) -> None:
        schedule_id, plan = self._draw_row("crontab")
        assert isinstance(plan, CrontabPlan)
        changed = CrontabPlan(fields=draw_crontab(self._random, self._zones).fields, zone=plan.zone)
        self._rows.write_schedule(CrontabSchedule, schedule_id, **to_columns(changed))
        self._note_schedule("crontab", schedule_id, changed)

    def _change_zone(self) -> None:
        schedule_id, plan = self._draw_row("crontab")
        assert isinstance(plan, CrontabPlan)
        changed = CrontabPlan(fields=plan.fields, zone=self._random.choice(self._zones))
        self._rows.write_schedule(CrontabSchedule, schedule_id, timezone=changed.zone)
        self._note_schedule("crontab", schedule_id, changed)

    def _edit_interval(self) -> None:
        schedule_id, _ = self._draw_row("interval")
        changed = IntervalPlan(every_s=self._random.choice(INTERVALS_S))
        self._rows.write_schedule(IntervalSchedule, schedule_id, every=changed.every_s)
        self._note_schedule("interval", schedule_id, changed)

    def _delete_job(self) -> None:
        job_id, _ = self._draw_job()
        self._rows.delete_job(job_id)
        del self._jobs[job_id]
        self._tell([job_id])

    def _delete_crontab(self) -> None:
        """Delete a row that a few jobs share under their feet; some move to another one, and one comes in its place."""
        by_row: dict[int, list[int]] = {row_id: [] for row_id in self._schedules["crontab"]}
        for job_id, row in self._jobs.items():
            if row.kind == "crontab" and row.schedule_id in by_row:
                by_row[row.schedule_id].append(job_id)
        schedule_id = min(by_row, key=lambda row_id: (len(by_row[row_id]), row_id))
        self._rows.delete_crontab(schedule_id)
        del self._schedules["crontab"][schedule_id]
        self._tell(by_row[schedule_id])
        plan = draw_crontab(self._random, self._zones)
        row = CrontabSchedule(**to_columns(plan), timezone=plan.zone)
        CrontabSchedule.objects.using(self._alias).bulk_create([row])
        self._schedules["crontab"][row.pk] = plan

    # What they draw, and what is told of it

    def _draw_job(self) -> tuple[int, _Row]:
        job_id = self._random.choice(list(self._jobs))
        return job_id, self._jobs[job_id]

    def _draw_row(self, kind: str) -> tuple[int, Plan]:
        schedule_id = self._random.choice(list(self._schedules[kind]))
        return schedule_id, self._schedules[kind][schedule_id]

    def _draw_schedule(self) -> tuple[str, int]:
        kind = "interval" if self._random.random() < SHARE_OF_INTERVALS else "crontab"
        return kind, self._draw_row(kind)[0]

    def _note_schedule(self, kind: str, schedule_id: int, plan: Plan) -> None:
        self._schedules[kind][schedule_id] = plan
        self._tell(job_id for job_id, row in self._jobs.items() if row.kind == kind and row.schedule_id == schedule_id)

    def _tell(self, job_ids: Iterable[int]) -> None:
        for job_id in job_ids:
            definition = self._define(job_id)
            if definition is not None and isinstance(definition.plan, CrontabPlan):
                self.crontabs.add(definition.plan)
            self._timeline.append(Edited(at_ms=self._time.now_ms, job_id=job_id, definition=definition))

    def _define(self, job_id: int) -> Definition | None:
        row = self._jobs.get(job_id)
        if row is None:
            return None
        return Definition(
            plan=self._schedules[row.kind].get(row.schedule_id),
            enabled=row.enabled,
            catch_up=row.catch_up,
            window_s=row.window_s,
        )
