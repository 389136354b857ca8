"""A tenant for each of ``DATABASES``: each is scheduled with its own database and nobody else's."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from django.core.checks import Tags, run_checks
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from pytest_django import Settings

from django_leased_cron.conf import build_settings
from django_leased_cron.core.events import (
    BatchDispatched,
    CodeScheduleSynchronised,
    DatabaseOutage,
    Event,
    LeaseAcquired,
    TermEnded,
)
from django_leased_cron.core.lease import FREE, TakeoverReason
from django_leased_cron.core.lease_machine import EndReason
from django_leased_cron.database.session import Session
from django_leased_cron.models import Occurrence, SchedulerLease
from django_leased_cron.tenants import Tenant, build_tenant_source
from django_leased_cron.wiring import SupervisorBuilder
from tests.integration.scheduling_bench import SchedulingBench

ALIASES = ["sqlite", "postgres", "mysql"]
THERE = [alias for alias in ALIASES if alias in connections]
"""Without those whose driver is not installed."""
PATIENCE_S = 20.0
TASK = "project.tasks.work"


class QueryLog:
    """Which thread asked which alias: our own sessions, Django's connections, and every connection made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.aliases: set[str] = set()
        self._spy(monkeypatch, Session, "fetch", lambda session: session.alias)
        self._spy(monkeypatch, CursorWrapper, "execute", lambda cursor: cursor.db.alias)
        self._spy(monkeypatch, CursorWrapper, "executemany", lambda cursor: cursor.db.alias)
        self._spy(monkeypatch, BaseDatabaseWrapper, "connect", lambda wrapper: wrapper.alias)

    def _spy(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, find_alias: Callable[[Any], str]) -> None:
        act = getattr(owner, name)

        def spied(this: Any, *args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                self.aliases.add(find_alias(this))
            return act(this, *args, **kwargs)

        monkeypatch.setattr(owner, name, spied)


class Run:
    """A supervisor in threads, and what it told."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._told = threading.Condition()
        self.stop = threading.Event()

    def emit(self, event: Event) -> None:
        with self._told:
            self.events.append(event)
            self._told.notify_all()

    def wait_for(self, wanted: type[Event] | Event) -> None:
        """Wait for an event, or for any of a kind."""
        self.wait_until(lambda: any(wanted in (event, type(event)) for event in self.events))

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for what becomes true with one of the events."""
        with self._told:
            assert self._told.wait_for(condition, PATIENCE_S), self.events


@contextmanager
def running(only: list[str], list_tenants: Callable[[], Sequence[Tenant]] | None = None) -> Iterator[Run]:
    """Schedule the tenants of all databases, unless others are listed, in a process that is started for some."""
    settings = build_settings(
        {
            "TENANTS": {"BACKEND": "django_leased_cron.tenants.DatabaseTenants", "OPTIONS": {"aliases": THERE}},
            "HEARTBEAT": 0.2,
            "POLL_INTERVAL": 0.1,
        }
    )
    app = Celery("project", broker="memory://", set_as_current=False)
    app.conf.beat_schedule = {"from code": {"task": TASK, "schedule": 3600.0}}
    list_tenants = list_tenants or build_tenant_source(settings).list_tenants
    run = Run()
    builder = SupervisorBuilder(settings, list_tenants(), only=only, emit=run.emit, app=app, list_tenants=list_tenants)
    thread = threading.Thread(target=builder.build().run, args=(run.stop.wait,))
    thread.start()
    try:
        yield run
    finally:
        run.stop.set()
        thread.join()


@pytest.mark.parametrize("database_alias", ALIASES, indirect=True)
def test_tenant_is_scheduled_without_one_query_on_another_alias(
    database_alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its first look to its release, edits and the code's schedule included; ``default`` too is another alias."""
    bench = SchedulingBench(database_alias)
    bench.every(1, task=TASK)
    log = QueryLog(monkeypatch)
    with running([database_alias]) as run:
        run.wait_for(BatchDispatched)
        run.wait_for(CodeScheduleSynchronised)
        edited = bench.every(1, task="project.tasks.more")
        sent = Occurrence.objects.using(database_alias).filter(job_id=edited.pk, sent_at_ms__isnull=False)
        run.wait_until(sent.exists)
    assert any(isinstance(event, TermEnded) for event in run.events)
    assert log.aliases == {database_alias}


def test_own_list_of_tenants_is_read_again_while_running(database_alias: str) -> None:
    """One that is new is scheduled, one that is gone is released, by a process that goes on."""
    leases = SchedulerLease.objects.using(database_alias).filter(tenant_key="shop")
    listed: list[Tenant] = []
    with running([], list_tenants=lambda: [*listed]) as run:
        for epoch in (1, 2):
            listed.append(Tenant(key="shop", alias=database_alias))
            run.wait_for(
                LeaseAcquired(tenant_key="shop", epoch=epoch, reason=TakeoverReason.FREE, previous_holder_id=FREE)
            )
            listed.clear()
            run.wait_for(TermEnded(tenant_key="shop", epoch=epoch, reason=EndReason.RELEASED))
            assert leases.get().holder_id == FREE


@pytest.mark.parametrize("database_alias", ["sqlite"], indirect=True)
@pytest.mark.parametrize("dead", THERE[1:])
def test_database_that_is_away_delays_no_other(database_alias: str, dead: str) -> None:
    """From the start on: its tenant is told of, the others are scheduled."""
    SchedulingBench(database_alias).every(1, task=TASK)
    with another_alias(dead, "dead", HOST="127.0.0.1", PORT="1"):
        tenants = [Tenant(key="dead", alias="dead"), Tenant(key="shop", alias=database_alias)]
        with running([], list_tenants=lambda: tenants) as run:
            run.wait_for(BatchDispatched)
            run.wait_for(DatabaseOutage)
    [outage] = [event for event in run.events if isinstance(event, DatabaseOutage)]
    assert outage.alias == "dead"


@contextmanager
def another_alias(like: str, name: str, **entry: Any) -> Iterator[None]:
    connections.settings[name] = {**connections[like].settings_dict, **entry}
    try:
        yield
    finally:
        connections[name].close()
        del connections[name]
        del connections.settings[name]


def find_errors(settings: Settings, *aliases: str) -> list[str]:
    settings.LEASED_CRON = {
        "TENANTS": {"BACKEND": "django_leased_cron.tenants.DatabaseTenants", "OPTIONS": {"aliases": aliases}}
    }
    messages = run_checks(tags=[Tags.database], databases=list(aliases))
    return [str(message.id) for message in messages if str(message.id).startswith("leased_cron.")]


@pytest.mark.parametrize("database_alias", ["postgres", "mysql"], indirect=True)
def test_aliases_that_lead_to_one_database_by_different_addresses_are_an_error(
    database_alias: str, settings: Settings
) -> None:
    """The settings do not show it; the server does."""
    if database_alias == "postgres":
        other: dict[str, Any] = {"OPTIONS": {"hostaddr": "127.0.0.1"}}
    else:
        other = {"OPTIONS": {**connections["mysql"].settings_dict["OPTIONS"], "port": 3306}}
    with another_alias(database_alias, "again", **other):
        assert find_errors(settings, database_alias, "again") == ["leased_cron.E010"]
        assert find_errors(settings, database_alias) == []


@pytest.mark.parametrize("database_alias", ["sqlite"], indirect=True)
def test_files_that_are_one_are_an_error(settings: Settings, database_alias: str) -> None:
    """By another name of the same file."""
    link = Path(connections["sqlite"].settings_dict["NAME"]).parent / "link.sqlite3"
    os.link(connections["sqlite"].settings_dict["NAME"], link)
    try:
        with another_alias("sqlite", "again", NAME=str(link)):
            assert find_errors(settings, "sqlite", "again") == ["leased_cron.E010"]
    finally:
        link.unlink()


@pytest.mark.parametrize("database_alias", ["postgres"], indirect=True)
def test_read_only_database_is_an_error(settings: Settings, database_alias: str) -> None:
    """A replica, or one that was set so: nothing could be scheduled there."""
    with another_alias("postgres", "replica", OPTIONS={"options": "-c default_transaction_read_only=on"}):
        assert find_errors(settings, "replica") == ["leased_cron.E009"]
