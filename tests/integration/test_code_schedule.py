"""The schedule that a project's code holds, and what becomes of it in the rows, on real databases."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from celery.beat import BeatLazyFunc
from celery.schedules import crontab, schedule
from django.db import OperationalError, connections
from django.db.models.signals import ModelSignal, post_delete, post_save, pre_delete, pre_save
from django.test.utils import CaptureQueriesContext
from django_celery_beat.clockedschedule import clocked
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask, PeriodicTasks

from django_leased_cron.code_schedule import sync as sync_module
from django_leased_cron.code_schedule.entries import read_code_schedule
from django_leased_cron.code_schedule.mode import SyncMode
from django_leased_cron.code_schedule.rows import SyncReport, TenantRows
from django_leased_cron.code_schedule.sync import CodeScheduleSync
from django_leased_cron.core.events import (
    CodeEntryRefused,
    CodeJobsOrphaned,
    CodeScheduleSynchronised,
    DatabaseOutage,
    DatabaseRecovered,
    Event,
    LeaseAcquired,
    LoopFailed,
    TermEnded,
)
from django_leased_cron.core.lease import TakeoverReason
from django_leased_cron.core.lease_machine import EndReason
from django_leased_cron.models import CodeJob
from django_leased_cron.tenants import Tenant
from django_leased_cron.testing import EventLog
from tests.integration.scheduling_bench import SchedulingBench

TASK = "project.tasks.work"
NIGHTLY = {"task": TASK, "schedule": crontab(minute="30", hour="2")}
TENANT = "acme"
ENOUGH_S = 10.0


class Project:
    """A project whose code can be changed, and its one tenant."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.tenant = Tenant(key=TENANT, alias=alias)
        self.code: dict[str, Any] = {}

    def app(self, **conf: Any) -> Celery:
        app = Celery("project", set_as_current=False, broker="memory://")
        app.conf.update(timezone="Europe/Berlin", beat_schedule=dict(self.code), **conf)
        return app

    def sync(self, mode: SyncMode = SyncMode.CREATE_ONLY, **conf: Any) -> SyncReport:
        return TenantRows(self.tenant, mode=mode).synchronise(read_code_schedule(self.app(**conf)))

    def job(self, name: str) -> PeriodicTask:
        jobs = PeriodicTask.objects.using(self.alias).select_related("interval", "crontab", "solar", "clocked")
        return jobs.get(name=name)

    def edit(self, name: str, /, **columns: Any) -> None:
        assert PeriodicTask.objects.using(self.alias).filter(name=name).update(**columns) == 1

    @contextmanager
    def writing_nothing(self) -> Iterator[None]:
        with CaptureQueriesContext(connections[self.alias]) as queries:
            yield
        assert queries
        assert [query["sql"] for query in queries if not query["sql"].lstrip("( ").upper().startswith("SELECT")] == []


@pytest.fixture
def project(database_alias: str) -> Project:
    return Project(database_alias)


modes = pytest.mark.parametrize("mode", list(SyncMode))


class TestEveryMode:
    @modes
    def test_entry_becomes_a_job(self, project: Project, mode: SyncMode) -> None:
        """With all that a row can hold, in the time zone of the Celery app."""
        project.code = {
            "nightly": NIGHTLY
            | {
                "args": (1, "b"),
                "kwargs": {"deep": {"a": [1]}},
                "options": {"queue": "q", "priority": 3, "headers": {"h": 1}, "expires": timedelta(minutes=1)},
                "enabled": False,
            }
        }
        assert project.sync(mode) == SyncReport(created=["nightly"])
        job = project.job("nightly")
        assert str(job.crontab) == "30 2 * * * (m/h/dM/MY/d) Europe/Berlin"
        assert (job.task, job.args, job.kwargs, job.headers) == (TASK, '[1, "b"]', '{"deep": {"a": [1]}}', '{"h": 1}')
        assert (job.queue, job.exchange, job.priority, job.expire_seconds) == ("q", None, 3, 60)
        assert (job.enabled, job.last_run_at, job.total_run_count) == (False, None, 0)

    @modes
    def test_nothing_is_written_where_nothing_differs(self, project: Project, mode: SyncMode) -> None:
        """A takeover of a thousand entries that are as they should be only looks."""
        project.code = {
            "nightly": NIGHTLY | {"kwargs": {"b": 1, "a": 2}},
            "often": {"task": TASK, "schedule": 10.0, "start_time": datetime(2027, 1, 1, tzinfo=UTC)},
            "once": {"task": TASK, "schedule": clocked(datetime(2027, 1, 1, tzinfo=UTC))},
        }
        assert len(project.sync(mode).created) == 3
        with project.writing_nothing():
            assert project.sync(mode) == SyncReport()

    @modes
    def test_no_signal_is_sent(self, project: Project, mode: SyncMode) -> None:
        """So neither django-celery-beat's change row, nor ``full_clean``, nor anybody's history hears of it."""
        heard: list[Any] = []
        signals: tuple[ModelSignal, ...] = (pre_save, post_save, pre_delete, post_delete)

        def hear(sender: Any, **_: Any) -> None:
            heard.append(sender)

        for signal in signals:
            signal.connect(hear)
        try:
            project.code = {"nightly": NIGHTLY}
            project.sync(mode)
            project.code = {"nightly": NIGHTLY | {"args": [1]}, "other": {"task": TASK, "schedule": 5}}
            project.sync(mode)
            project.code = {}
            project.sync(mode)
        finally:
            for signal in signals:
                signal.disconnect(hear)
        assert {sender for sender in heard if sender is not CodeJob} == set()
        assert not PeriodicTasks.objects.using(project.alias).exists()

    @modes
    def test_renamed_job_stays_that_of_its_entry(self, project: Project, mode: SyncMode) -> None:
        """A second one beside it would double every firing."""
        project.code = {"nightly": NIGHTLY}
        project.sync(mode)
        project.edit("nightly", name="The nightly report")
        assert project.sync(mode) == SyncReport()
        assert PeriodicTask.objects.using(project.alias).count() == 1

    @modes
    def test_deleted_job_is_created_again(self, project: Project, mode: SyncMode) -> None:
        """To stop it, people disable it."""
        project.code = {"nightly": NIGHTLY}
        project.sync(mode)
        PeriodicTask.objects.using(project.alias).all()._raw_delete(project.alias)
        assert project.sync(mode).created == ["nightly"]
        assert project.sync(mode) == SyncReport()
        assert CodeJob.objects.using(project.alias).get().job_id == project.job("nightly").pk

    @modes
    def test_job_that_is_there_already_is_taken_over(self, project: Project, mode: SyncMode) -> None:
        """As ``DatabaseScheduler`` left it: with its last run and its count."""
        ran_at = datetime(2026, 12, 1, 1, 30, tzinfo=UTC)
        row = CrontabSchedule(minute="30", hour="2", timezone="Europe/Berlin")
        with closing(SchedulingBench(project.alias)) as bench:
            job = bench.job(name="nightly", task=TASK, crontab=bench.insert(row), last_run_at=ran_at, total_run_count=9)
        project.code = {"nightly": NIGHTLY}
        assert project.sync(mode) == SyncReport()
        assert (project.job("nightly").last_run_at, project.job("nightly").total_run_count) == (ran_at, 9)
        assert CodeJob.objects.using(project.alias).get().job_id == job.pk

    @modes
    def test_job_of_another_entry_is_not_taken(self, project: Project, mode: SyncMode) -> None:
        """People gave it the name of a new entry."""
        project.code = {"nightly": NIGHTLY}
        project.sync(mode)
        project.edit("nightly", name="weekly")
        project.code["weekly"] = {"task": TASK, "schedule": 7 * 86400}
        assert list(project.sync(mode).refused) == ["weekly"]
        assert project.job("weekly").interval is None

    @modes
    def test_entry_and_job_are_renamed_together(self, project: Project, mode: SyncMode) -> None:
        """The job goes on, as that of the new entry."""
        project.code = {"nightly": NIGHTLY}
        project.sync(mode)
        project.edit("nightly", name="report")
        project.code = {"report": NIGHTLY}
        assert project.sync(mode) == SyncReport()
        assert CodeJob.objects.using(project.alias).get().entry == "report"
        assert project.job("report").enabled

    @modes
    def test_processes_that_synchronise_at_once_agree(self, project: Project, mode: SyncMode) -> None:
        """A holder that was frozen goes on beside its successor."""
        project.code = {f"entry {number}": {"task": TASK, "schedule": 10 + number} for number in range(10)}
        _at_once(project, [lambda: project.sync(mode)] * 3)
        assert PeriodicTask.objects.using(project.alias).count() == 10
        assert CodeJob.objects.using(project.alias).count() == 10
        with project.writing_nothing():
            assert project.sync(mode) == SyncReport()


class TestCreateOnly:
    def test_edits_of_people_are_kept(self, project: Project) -> None:
        """Of every column."""
        project.code = {"nightly": NIGHTLY}
        project.sync()
        interval = IntervalSchedule.objects.using(project.alias)
        interval.bulk_create([IntervalSchedule(every=7, period="minutes")])
        edits = {"task": "other", "args": "[1]", "enabled": False, "crontab": None, "interval": interval.get()}
        project.edit("nightly", **edits)
        project.code["nightly"] = NIGHTLY | {"args": [2], "enabled": True}
        with project.writing_nothing():
            assert project.sync() == SyncReport()
        job = project.job("nightly")
        assert {name: getattr(job, name) for name in edits} == edits

    def test_orphans_are_shown_as_long_as_they_are_enabled(self, project: Project) -> None:
        """Whoever disables one has seen it."""
        project.code = {"nightly": NIGHTLY, "weekly": NIGHTLY}
        project.sync()
        del project.code["nightly"]
        for _ in range(2):
            assert project.sync() == SyncReport(orphans=["nightly"])
        assert project.job("nightly").enabled
        project.edit("nightly", enabled=False)
        assert project.sync() == SyncReport()


class TestUpdate:
    def test_job_gets_what_the_code_says(self, project: Project) -> None:
        """And what the code leaves out is taken back, as beat reads it."""
        project.code = {"nightly": NIGHTLY | {"args": [1], "options": {"queue": "slow", "expires": 60}}}
        project.sync(SyncMode.UPDATE)
        project.code = {"nightly": {"task": "project.tasks.other", "schedule": 90}}
        changed_at = project.job("nightly").date_changed
        assert project.sync(SyncMode.UPDATE) == SyncReport(updated=["nightly"])
        job = project.job("nightly")
        assert (job.crontab, job.interval.every, job.interval.period) == (None, 90, "seconds")
        assert (job.task, job.args, job.queue, job.expire_seconds) == ("project.tasks.other", "[]", None, None)
        assert job.date_changed > changed_at
        assert project.sync(SyncMode.UPDATE) == SyncReport()

    def test_what_the_code_cannot_say_or_leaves_out_is_kept(self, project: Project) -> None:
        """An operator's switch outlives every takeover."""
        project.code = {"nightly": NIGHTLY | {"description": "of the code"}}
        project.sync(SyncMode.UPDATE)
        edits = {"enabled": False, "start_time": datetime(2027, 1, 1, tzinfo=UTC), "total_run_count": 7}
        project.edit("nightly", **edits, description="of somebody")
        assert project.sync(SyncMode.UPDATE).updated == ["nightly"]
        job = project.job("nightly")
        assert {name: getattr(job, name) for name in edits} == edits
        assert job.description == "of the code"

    def test_schedule_that_others_share_is_not_changed(self, project: Project) -> None:
        """The job is pointed to another row."""
        project.code = {"one": NIGHTLY, "two": NIGHTLY}
        project.sync(SyncMode.UPDATE)
        assert project.job("one").crontab == project.job("two").crontab
        project.code["one"] = {"task": TASK, "schedule": crontab(minute="0", hour="5")}
        project.sync(SyncMode.UPDATE)
        assert (project.job("one").crontab.hour, project.job("two").crontab.hour) == ("5", "2")

    def test_one_off_that_had_its_run_is_not_switched_on(self, project: Project) -> None:
        """Though the entry says that it is enabled."""
        project.code = {"once": NIGHTLY | {"one_off": True, "enabled": True}}
        project.sync(SyncMode.UPDATE)
        project.edit("once", enabled=False)
        assert project.sync(SyncMode.UPDATE) == SyncReport()

    def test_orphans_are_shown(self, project: Project) -> None:
        """Nothing else happens to them."""
        project.code = {"nightly": NIGHTLY}
        project.sync(SyncMode.UPDATE)
        project.code = {}
        assert project.sync(SyncMode.UPDATE) == SyncReport(orphans=["nightly"])


class TestMirror:
    def test_job_whose_entry_is_gone_is_disabled_and_comes_back_with_it(self, project: Project) -> None:
        """As when an older version of the code holds the lease for a while."""
        with closing(SchedulingBench(project.alias)) as bench:
            bench.every(60, name="of people")
        project.code = {"nightly": NIGHTLY}
        project.sync(SyncMode.MIRROR)
        project.code = {}
        assert project.sync(SyncMode.MIRROR) == SyncReport(disabled=["nightly"])
        assert project.sync(SyncMode.MIRROR) == SyncReport()
        assert not project.job("nightly").enabled
        assert project.job("of people").enabled
        project.code = {"nightly": NIGHTLY}
        assert project.sync(SyncMode.MIRROR) == SyncReport(updated=["nightly"])
        assert project.job("nightly").enabled

    def test_one_off_does_not_come_back(self, project: Project) -> None:
        """It may have had its run."""
        project.code = {"once": NIGHTLY | {"one_off": True}}
        project.sync(SyncMode.MIRROR)
        project.code = {}
        project.sync(SyncMode.MIRROR)
        project.code = {"once": NIGHTLY | {"one_off": True}}
        assert project.sync(SyncMode.MIRROR) == SyncReport()
        assert not project.job("once").enabled

    def test_job_that_somebody_disabled_stays_so(self, project: Project) -> None:
        """Its entry never went."""
        project.code = {"nightly": NIGHTLY}
        project.sync(SyncMode.MIRROR)
        project.edit("nightly", enabled=False)
        assert project.sync(SyncMode.MIRROR) == SyncReport()


REFUSED: dict[str, tuple[Any, str]] = {
    "an option without a column": (NIGHTLY | {"options": {"serializer": "pickle", "countdown": 3}}, "'countdown'"),
    "options that are no dict": (NIGHTLY | {"options": ["queue"]}, "options"),
    "a misspelt key": (NIGHTLY | {"arguments": [1]}, "'arguments'"),
    "no schedule": ({"task": TASK}, "schedule"),
    "a text for a schedule": ({"task": TASK, "schedule": "* * * * *"}, "schedule"),
    "an interval too short": ({"task": TASK, "schedule": 0.5}, "every"),
    "a relative interval": ({"task": TASK, "schedule": schedule(60, relative=True)}, "relative"),
    "no task": ({"schedule": 60}, "task"),
    "arguments made at each sending": (NIGHTLY | {"args": [BeatLazyFunc(int)]}, "args"),
    "no dict": (60, "dict"),
    "a task's name that is too long": (NIGHTLY | {"task": "t" * 201}, "200"),
}


@pytest.mark.parametrize(("entry", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_entry_that_cannot_be_a_job_is_refused_by_name_and_the_others_go_on(
    project: Project, entry: Any, words: str
) -> None:
    """With the reason; a job that it has already is left alone and is no orphan."""
    project.code = {"bad": NIGHTLY}
    project.sync(SyncMode.MIRROR)
    project.code = {"bad": entry, "good": NIGHTLY}
    report = project.sync(SyncMode.MIRROR)
    assert list(report.refused) == ["bad"]
    assert words in report.refused["bad"]
    assert report.created == ["good"]
    assert not report.disabled
    assert project.job("bad").enabled


def test_entries_of_add_periodic_task_are_among_them(project: Project) -> None:
    """Those that the app adds when it is finalized."""
    app = project.app()

    @app.on_after_finalize.connect
    def add(sender: Celery, **_: Any) -> None:
        signature = sender.signature(TASK, (7,)).set(queue="q")
        sender.add_periodic_task(30.0, signature, name="half a minute", expires=20)

    app.finalize()
    TenantRows(project.tenant, mode=SyncMode.CREATE_ONLY).synchronise(read_code_schedule(app))
    job = project.job("half a minute")
    assert (job.args, job.queue, job.expire_seconds, job.interval.every) == ("[7]", "q", 20, 30)


BACKENDS: dict[str, tuple[Mapping[str, Any], list[str]]] = {
    "that does not expire results": ({"result_backend": "file:///tmp/results"}, ["celery.backend_cleanup"]),
    "where nothing expires": ({"result_backend": "file:///tmp/results", "result_expires": None}, []),
    "that expires them by itself": ({"result_backend": "redis://"}, []),
    "that is none": ({"result_backend": "disabled://"}, []),
    "that cannot be imported": ({"result_backend": "no.such:Backend"}, []),
    "not set": ({}, []),
}


@pytest.mark.parametrize("database_alias", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("conf", "created"), BACKENDS.values(), ids=BACKENDS.keys())
def test_clean_up_of_results_is_added_for_a_backend(
    project: Project, conf: Mapping[str, Any], created: list[str]
) -> None:
    """By Celery's own rule, and never for nothing."""
    assert project.sync(**conf).created == created


class TestSync:
    """When it is done, on a thread of its own."""

    @pytest.fixture
    def events(self) -> WatchedLog:
        return WatchedLog()

    def build(self, project: Project, events: WatchedLog, **conf: Any) -> CodeScheduleSync:
        return CodeScheduleSync(project.app(**conf), {project.tenant.key: project.tenant}, emit=events.emit)

    def test_term_that_begins_synchronises(self, project: Project, events: WatchedLog) -> None:
        """Once, and tells what it did and what it could not do."""
        project.code = {"nightly": NIGHTLY, "bad": {"task": TASK}}
        self.build(project, events).observe(_acquired(1))
        [done] = events.wait_for(CodeScheduleSynchronised)
        assert (done.tenant_key, done.mode, done.created) == (TENANT, "create_only", ["nightly"])
        assert [event.entry for event in events.of(CodeEntryRefused)] == ["bad"]

    def test_next_term_does_it_again(self, project: Project, events: WatchedLog) -> None:
        """With what is in the code by then."""
        project.code = {"nightly": NIGHTLY}
        sync = self.build(project, events)
        sync.observe(_acquired(1))
        events.wait_for(CodeScheduleSynchronised)
        other = self.build(Project(project.alias), events)
        other.observe(_acquired(2))
        [orphaned] = events.wait_for(CodeJobsOrphaned)
        assert orphaned.jobs == ["nightly"]

    def test_database_that_fails_is_asked_again(
        self, project: Project, events: WatchedLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Told once, and the recovery too."""
        monkeypatch.setattr(sync_module, "_RETRY_S", 0.01)
        _fail(monkeypatch, [OperationalError("gone\nDETAIL")] * 3)
        project.code = {"nightly": NIGHTLY}
        self.build(project, events).observe(_acquired(1))
        events.wait_for(DatabaseRecovered)
        [outage] = events.of(DatabaseOutage)
        assert (outage.alias, outage.detail) == (project.alias, f"database {project.alias!r}: gone")
        assert project.job("nightly").enabled

    def test_term_that_ends_is_not_synchronised_any_more(
        self, project: Project, events: WatchedLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its successor does it, perhaps with newer code."""
        _fail(monkeypatch, [OperationalError("gone")])
        project.code = {"nightly": NIGHTLY}
        sync = self.build(project, events)
        sync.observe(_acquired(1))
        events.wait_for(DatabaseOutage)
        sync.observe(TermEnded(tenant_key=TENANT, epoch=1, reason=EndReason.DENIED))
        project.code = {}
        sync.observe(_acquired(2))
        sync.observe(TermEnded(tenant_key=TENANT, epoch=1, reason=EndReason.DENIED))  # late, and of another term
        events.wait_for(CodeScheduleSynchronised)
        assert len(events.of(CodeScheduleSynchronised)) == 1

    def test_error_of_ours_is_told_and_not_repeated(
        self, project: Project, events: WatchedLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The next term tries again."""
        _fail(monkeypatch, [ZeroDivisionError()])
        project.code = {"nightly": NIGHTLY}
        sync = self.build(project, events)
        sync.observe(_acquired(1))
        [failed] = events.wait_for(LoopFailed)
        assert isinstance(failed.error, ZeroDivisionError)
        sync.observe(_acquired(2))
        events.wait_for(CodeScheduleSynchronised)
        assert len(events.of(LoopFailed)) == 1


class WatchedLog:
    """Events that another thread emits, and a wait for them."""

    def __init__(self) -> None:
        self._log = EventLog()
        self._changed = threading.Condition()
        self.of = self._log.of

    def emit(self, event: Event) -> None:
        with self._changed:
            self._log.append(event)
            self._changed.notify_all()

    def wait_for(self, kind: type[Any]) -> list[Any]:
        with self._changed:
            assert self._changed.wait_for(lambda: self.of(kind), ENOUGH_S), f"no {kind.__name__} in {self._log}"
        return self.of(kind)


def _acquired(epoch: int) -> LeaseAcquired:
    return LeaseAcquired(tenant_key=TENANT, epoch=epoch, reason=TakeoverReason.FREE, previous_holder_id="")


def _fail(monkeypatch: pytest.MonkeyPatch, errors: list[Exception]) -> None:
    """Let the first tries fail."""
    synchronise = TenantRows.synchronise

    def fail_first(rows: TenantRows, code: Any) -> SyncReport:
        if errors:
            raise errors.pop(0)
        return synchronise(rows, code)

    monkeypatch.setattr(TenantRows, "synchronise", fail_first)


def _at_once(project: Project, calls: list[Callable[[], Any]]) -> None:
    barrier = threading.Barrier(len(calls))
    errors: list[BaseException] = []

    def run(call: Callable[[], Any]) -> None:
        try:
            barrier.wait()
            call()
        except BaseException as exc:  # noqa: BLE001 - raised below, in the test's own thread
            errors.append(exc)
        finally:
            connections[project.alias].close()

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
