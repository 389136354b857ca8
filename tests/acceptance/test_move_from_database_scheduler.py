"""``celery beat`` with django-celery-beat's scheduler, then this one, and back: each by its own real process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from django_celery_beat.models import ClockedSchedule, IntervalSchedule, PeriodicTask
from pytest_django import DjangoDbBlocker

from django_leased_cron.models import JobState
from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.forms import DEFAULTS, others_in_full
from tests.acceptance.processes import Process
from tests.acceptance.waiting import now_ms, wait_for_instant, wait_until

_EVERY_MS = 3000
_START_S = 30.0
on_postgres_and_sqlite = pytest.mark.parametrize(
    "stack", others_in_full("postgres-redis", "sqlite-filesystem"), indirect=True
)
Headers = Mapping[str, Any]


class MovingFleet(Fleet):
    """A fleet that can run the other scheduler, too, and reads its queue when nobody writes to it."""

    def start_other_scheduler(self) -> Process:
        scheduler = "django_celery_beat.schedulers:DatabaseScheduler"
        arguments = f"-m celery -A example_project beat -S {scheduler} -l DEBUG --max-interval 1".split()
        return self._start(f"DatabaseScheduler {len(self._processes) + 1}", arguments)

    def take_messages(self) -> list[Headers]:
        """Return the headers of what has arrived since the last time."""
        app = Celery("reader", set_as_current=False)
        app.conf.update(self.broker.direct_settings, task_default_queue=self.broker.queue)
        taken: list[Headers] = []
        with app.connection_for_read() as connection:
            queue = app.amqp.queues[self.broker.queue]
            consumer = connection.Consumer([queue], on_message=lambda m: taken.append(m.headers), no_ack=True)
            with consumer, suppress(TimeoutError):
                while True:
                    connection.drain_events(timeout=0.5)
        return taken

    def job(self, name: str) -> PeriodicTask:
        return PeriodicTask.objects.using(self.database.alias).get(name=name)

    def add(self, name: str, **columns: Any) -> PeriodicTask:
        """Add a row as by hand: django-celery-beat's own bookkeeping of a save goes to the default database."""
        schedules = {"clocked": ClockedSchedule, "interval": IntervalSchedule}
        for kind, model in schedules.items():
            if kind in columns:
                rows = model._default_manager.using(self.database.alias)
                rows.bulk_create([model(**columns[kind])])
                columns[kind] = rows.latest("pk")
        rows = PeriodicTask.objects.using(self.database.alias)
        rows.bulk_create([PeriodicTask(name=name, task="example_project.tasks.noop", **columns)])
        return self.job(name)


@pytest.fixture
def moving(stack: str, django_db_blocker: DjangoDbBlocker) -> Iterator[MovingFleet]:
    """Yield a fleet on a migrated database, without processes."""
    with django_db_blocker.unblock():
        fleet = MovingFleet(stack, cuttable=False, leased_cron=DEFAULTS)
        try:
            fleet.migrate()
            yield fleet
        finally:
            fleet.close()


@on_postgres_and_sqlite
@pytest.mark.timeout(180)
def test_move_there_and_back_and_there_again(moving: MovingFleet, report: Report) -> None:
    """Jobs that come due in the seconds of a switch are neither repeated nor lost, whether they ran before or not."""
    every = {"every": _EVERY_MS // 1000, "period": "seconds"}
    moving.add("often", interval=every)
    yesterday = datetime.now(UTC) - timedelta(days=1, minutes=1)
    moving.add("once", interval={"every": 1, "period": "days"}, one_off=True, last_run_at=yesterday)

    # There: the procedure of the documentation, with slots in the gap between the two.
    _run_other_scheduler(moving, sendings=3)
    often, once = moving.job("often"), moving.job("once")
    assert (once.enabled, once.total_run_count) == (True, 1)
    sent_there = moving.take_messages()
    assert len(sent_there) == often.total_run_count + 1
    assert not any("leased_cron" in headers for headers in sent_there)
    in_the_gap = _to_ms(often.last_run_at) + _EVERY_MS // 2
    moving.add("clocked", clocked={"clocked_time": _to_datetime(in_the_gap)}, one_off=True)
    PeriodicTask.objects.using(moving.database.alias).update(date_changed=often.last_run_at - timedelta(hours=1))
    wait_for_instant(_to_ms(often.last_run_at) + _EVERY_MS + 200)
    sent_here = _run_this_scheduler(moving, until_ms=now_ms() + 3 * _EVERY_MS)

    due = _find_due(sent_here, often)
    assert due == [_to_ms(often.last_run_at) + number * _EVERY_MS for number in range(1, len(due) + 1)]
    assert len(due) >= 4
    assert _find_due(sent_here, moving.job("clocked")) == [in_the_gap]
    assert _find_due(sent_here, once) == []
    assert not moving.job("clocked").enabled
    before, often = often, moving.job("often")
    assert often.total_run_count == before.total_run_count + len(due)

    # Back: what was due in the gap is sent at once, and nothing that was sent here.
    back = _run_other_scheduler(moving, sendings=1)
    before, often = often, moving.job("often")
    runs = often.total_run_count - before.total_run_count
    names = [headers["periodic_task_name"] for headers in moving.take_messages()]
    assert names == ["often"] * runs
    assert often.last_run_at - before.last_run_at >= timedelta(milliseconds=runs * _EVERY_MS)
    assert "Traceback" not in back.read_log()

    # There again: on from its last run, and nothing before that.
    wait_for_instant(_to_ms(often.last_run_at) + _EVERY_MS + 200)
    again = _find_due(_run_this_scheduler(moving, until_ms=now_ms() + 2 * _EVERY_MS), often)
    assert again == [_to_ms(often.last_run_at) + number * _EVERY_MS for number in range(1, len(again) + 1)]
    assert len(again) >= 3
    report(f"{len(sent_there)} there, {len(due)} here, {runs} there, {len(again)} here: none lost, none twice")


def _run_other_scheduler(fleet: MovingFleet, *, sendings: int) -> Process:
    """Run it until it has sent so much, and stop it politely: then it writes what it knows."""
    beat = fleet.start_other_scheduler()
    wait_until(lambda: beat.read_log().count(" sent. id->") >= sendings, "beat to send", within_s=_START_S)
    beat.terminate()
    assert beat.wait_for_exit(within_s=_START_S) == 0
    return beat


def _run_this_scheduler(fleet: MovingFleet, *, until_ms: int) -> list[Headers]:
    """Run it for a while; return the headers of what it has sent."""
    fleet.start_supervisors(1)
    wait_until(JobState.objects.using(fleet.database.alias).exists, "jobs to be planned", within_s=_START_S)
    wait_for_instant(until_ms)
    fleet.stop_supervisors()
    return fleet.take_messages()


def _find_due(sent: list[Headers], job: PeriodicTask) -> list[int]:
    """Return the due times of what was sent of a job, in order."""
    due = [headers["leased_cron"]["due_at"] for headers in sent if headers["periodic_task_name"] == job.name]
    return sorted(_to_ms(datetime.fromisoformat(text)) for text in due)


def _to_ms(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _to_datetime(at_ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
