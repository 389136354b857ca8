"""A day of real schedules, from rows to the broker: the planner, claims and confirms of a term in simulated time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from celery import Celery
from django.db.models import Count
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from django_leased_cron.core.timing import LeaseTiming
from django_leased_cron.models import JobState, Occurrence
from tests.integration.real_schedules import read_real_schedules, save_jobs
from tests.simulation.broker import SimulatedBroker
from tests.simulation.process import SimulatedProcess
from tests.simulation.simulated_time import SimulatedTime

# The night in which America's clocks go back, a Sunday and the first of a month.
START: Final = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp())
END: Final = START + 86_400
TIMING: Final = LeaseTiming(
    lease_ttl_s=960, heartbeat_s=320, poll_interval_s=0.5, rescue_after_s=1, publish_timeout_s=5
)
TICK_S: Final = 900
"""How often the term gets to act. Nothing is missed by that: it is less than the lease lasts."""


def spoil(alias: str) -> Mapping[str, str]:
    """Add jobs as only raw SQL or a shell writes them; return what is to be said of each, by name."""
    fields: Mapping[str, Mapping[str, str]] = {
        "sunday is 7": {"day_of_week": "7"},
        "30 February": {"day_of_month": "30", "month_of_year": "2"},
        "hour of 24": {"hour": "24"},
    }
    crontabs = {name: CrontabSchedule(**columns, timezone="UTC") for name, columns in fields.items()}
    CrontabSchedule.objects.using(alias).bulk_create(crontabs.values())
    minute, never = (IntervalSchedule(every=every, period=IntervalSchedule.MINUTES) for every in (1, 0))
    IntervalSchedule.objects.using(alias).bulk_create([minute, never])
    PeriodicTask.objects.using(alias).bulk_create(
        [
            *(PeriodicTask(name=name, task="work", crontab=row) for name, row in crontabs.items()),
            PeriodicTask(name="every 0 minutes", task="work", interval=never),
            PeriodicTask(name="bare string", task="work", interval=minute, args="daily"),
            PeriodicTask(name="no schedule", task="work"),
        ]
    )
    return {
        "sunday is 7": "crontab_day_of_week",
        "30 February": "crontab_day_of_month",
        "hour of 24": "crontab_hour",
        "every 0 minutes": "interval_every",
        "bare string": "args",
        "no schedule": "schedule",
    }


def test_options_without_a_column_are_told_by_name() -> None:
    """A ``beat_schedule`` is read with a complaint that lists each, and with no other complaint."""
    app = Celery("real", set_as_current=False)
    left_out: Counter[str] = Counter()
    for schedule in read_real_schedules():
        problems = schedule.find_problems(app)
        assert len(problems) == bool(schedule.left_out)
        assert all(repr(option) in problems[0] for option in schedule.left_out)
        left_out.update(schedule.left_out)
    assert left_out == {"work_gated": 11, "time_limit": 5, "skip_gated": 5, "soft_time_limit": 3}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("database_alias", ["sqlite"], indirect=True)
def test_day_of_real_schedules_is_dispatched_to_the_last_slot(database_alias: str) -> None:
    """Each as often as it is due, on the night of a change of clocks; malformed ones are flagged and harm nobody."""
    schedules = read_real_schedules()
    save_jobs(schedules, alias=database_alias)
    errors = spoil(database_alias)
    jobs: Any = PeriodicTask.objects.using(database_alias)
    name_by_id: dict[int, str] = dict(jobs.values_list("pk", "name"))

    sent = Counter(run_day(database_alias))
    counts = {name: sent[job_id] for job_id, name in name_by_id.items()}
    assert counts == {each.name: each.count_due(START, END) for each in schedules} | dict.fromkeys(errors, 0)

    states = JobState.objects.using(database_alias)
    flagged = {
        name_by_id[state.job_id]: state.error.partition(":")[0].split(" ")[0] for state in states.exclude(error="")
    }
    assert flagged == errors
    assert states.filter(next_due_at_ms__isnull=False).count() == len(schedules)
    occurrences: Any = Occurrence.objects.using(database_alias)
    assert list(occurrences.values_list("state", "attempt").distinct()) == [("sent", 1)]
    assert occurrences.aggregate(Count("task_id", distinct=True)) == {"task_id__count": sent.total()}


def run_day(alias: str) -> list[int]:
    """Schedule the day; return the job of each message that the broker got."""
    time = SimulatedTime(START * 1000)
    broker = SimulatedBroker(time, [], seconds_each=1 / 4096)
    process = SimulatedProcess(alias, holder_id="only", time=time, broker=broker, timeline=[], timing=TIMING)
    with closing(process):
        assert process.try_take_over()
        for at in range(START, END + 1, TICK_S):
            time.advance_to(at * 1000)
            process.run()
    return [message.job_id for message in broker.accepted]
