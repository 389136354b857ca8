"""What a lease store says when the database is not as it should be: never "held by other", never "held"."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connections

from django_leased_cron.core.lease import LeaseRow, LeaseStore, ProcessReport, TakeoverReason
from django_leased_cron.database.session import Session
from django_leased_cron.exceptions import (
    CommitOutcomeUnknownError,
    DatabaseClockError,
    DatabaseUnavailableError,
    MissingTableError,
)
from django_leased_cron.models import SchedulerProcess
from tests.contract.lease_stores import NOW_MS, Stores

REPORT = ProcessReport(holder_id="me", host="web-1", pid=42, version="0.1", draining=False, tenants=[])

Act = Callable[[LeaseStore, LeaseRow], object]
ACTS_BY_THE_CLOCK: dict[str, Act] = {
    "read": lambda store, row: store.read([row.tenant_key]),
    "acquire": lambda store, row: store.try_acquire(row, holder_id="me", reason=TakeoverReason.UNCHANGED),
    "renew": lambda store, row: store.renew(holder_id=row.holder_id, epochs={row.tenant_key: row.epoch}),
    "request hand-over": lambda store, row: store.request_hand_over(row),
    "hand over": lambda store, row: store.hand_over(
        tenant_key=row.tenant_key, holder_id=row.holder_id, epoch=row.epoch, successor_id=REPORT.holder_id
    ),
    "report": lambda store, row: store.report_process(REPORT),
    "forget": lambda store, row: store.forget_process(holder_id="other"),
}
ACTS_ON_LEASES: dict[str, Act] = {
    "read": ACTS_BY_THE_CLOCK["read"],
    "acquire": ACTS_BY_THE_CLOCK["acquire"],
    "renew": ACTS_BY_THE_CLOCK["renew"],
    "request hand-over": ACTS_BY_THE_CLOCK["request hand-over"],
    "hand over": ACTS_BY_THE_CLOCK["hand over"],
    "release": lambda store, row: store.release(tenant_key=row.tenant_key, holder_id=row.holder_id, epoch=row.epoch),
}
OWN_CONNECTION = {"postgres": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()"}
END_CONNECTION = {"postgres": "SELECT pg_terminate_backend(%s)", "mysql": "KILL %s"}


@pytest.mark.parametrize("clock", ["0", "NULL", "946684800000", "7300000000000", "1800000000"])
def test_absurd_clock_decides_nothing(stores: Stores, clock: str) -> None:
    """Zero, NULL, the year 2000, the year 2201, seconds in place of milliseconds."""
    seen = stores.put()
    stores.build().report_process(REPORT)
    store = stores.build(clock)
    for act in ACTS_BY_THE_CLOCK.values():
        with pytest.raises(DatabaseClockError, match=rf"{stores.alias}.*set the server's clock"):
            act(store, seen)
    assert stores.row() == seen
    assert SchedulerProcess.objects.using(stores.alias).get().last_seen_at_ms == NOW_MS


def test_release_needs_no_clock(stores: Stores) -> None:
    """Going down in order is possible whatever the time is."""
    stores.put()
    assert stores.build("NULL").release(tenant_key="acme", holder_id="other", epoch=7)


def test_missing_table_says_migrate_and_where(stores: Stores) -> None:
    """The app was installed, its migrations were not run."""
    seen = stores.put()
    store = stores.build()
    with _renamed_table(stores.alias):
        for act in ACTS_ON_LEASES.values():
            with pytest.raises(MissingTableError, match=rf"manage\.py migrate --database={stores.alias}"):
                act(store, seen)
    assert stores.row() == seen


@contextmanager
def _renamed_table(alias: str) -> Iterator[None]:
    with connections[alias].cursor() as cursor:
        cursor.execute("ALTER TABLE leased_cron_schedulerlease RENAME TO elsewhere")
        try:
            yield
        finally:
            cursor.execute("ALTER TABLE elsewhere RENAME TO leased_cron_schedulerlease")


def test_lost_reply_to_an_acquire_can_be_found_out(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller is told that it does not know; the next reading shows the lease as its own."""
    seen = stores.put()
    store = stores.build()
    with _lost_replies_to_commit(monkeypatch, committed=True), pytest.raises(CommitOutcomeUnknownError):
        store.try_acquire(seen, holder_id="me", reason=TakeoverReason.UNCHANGED)
    found = store.read(["acme"]).leases["acme"]
    assert (found.holder_id, found.epoch) == ("me", seen.epoch + 1)
    assert store.renew(holder_id="me", epochs={"acme": found.epoch}).renewed == {"acme"}


def test_commit_that_never_arrived_looks_the_same_until_the_next_reading(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same error; the row shows that nothing happened."""
    seen = stores.put()
    store = stores.build()
    with _lost_replies_to_commit(monkeypatch, committed=False), pytest.raises(CommitOutcomeUnknownError):
        store.try_acquire(seen, holder_id="me", reason=TakeoverReason.UNCHANGED)
    assert store.read(["acme"]).leases["acme"] == seen


@contextmanager
def _lost_replies_to_commit(monkeypatch: pytest.MonkeyPatch, *, committed: bool) -> Iterator[None]:
    execute = Session.execute

    def execute_and_lose(self: Session, sql: str, parameters: Mapping[str, Any] | None = None) -> int:
        if sql == "COMMIT" and not committed:
            raise OperationalError("the connection is lost")
        matched = execute(self, sql, parameters)
        if sql == "COMMIT":
            raise OperationalError("the connection is lost")
        return matched

    with monkeypatch.context() as patch:
        patch.setattr(Session, "execute", execute_and_lose)
        yield


@pytest.mark.parametrize("database_alias", ["postgres", "mysql"], indirect=True)
def test_connection_that_died_while_idle_is_replaced(stores: Stores) -> None:
    """A restarted server, a proxy, wait_timeout: nothing had been asked of it, so nobody need hear of it."""
    pool = stores.pool()
    store = stores.build(pool=pool)
    store.read(["acme"])
    with pool.transaction() as session:
        ((connection_id,),) = session.fetch(OWN_CONNECTION[stores.alias])
    with connections[stores.alias].cursor() as cursor:
        cursor.execute(END_CONNECTION[stores.alias], [connection_id])
    assert set(store.read(["acme"]).leases) == {"acme"}


@pytest.mark.parametrize("database_alias", ["postgres", "mysql"], indirect=True)
def test_server_that_does_not_answer_is_unavailable(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """And answers again when it is back."""
    seen = stores.put()
    store = stores.build()
    with monkeypatch.context() as patch:
        patch.setitem(connections[stores.alias].settings_dict, "PORT", "1")
        for act in ACTS_ON_LEASES.values():
            with pytest.raises(DatabaseUnavailableError, match=stores.alias):
                act(store, seen)
    assert store.read(["acme"]).leases["acme"] == seen


@pytest.mark.parametrize("database_alias", ["postgres"], indirect=True)
def test_options_of_the_project_that_a_pool_breaks_are_left_out(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next transaction may run on a backend that knows nothing of what the last one prepared."""
    seen = stores.put()
    options = {"prepare_threshold": 0, "server_side_binding": True}
    monkeypatch.setitem(connections[stores.alias].settings_dict, "OPTIONS", options)
    pool = stores.pool()
    store = stores.build(pool=pool)
    for act in ACTS_ON_LEASES.values():
        act(store, seen)
    with pool.transaction() as session:
        assert session.fetch("SELECT COUNT(*) FROM pg_prepared_statements") == [(0,)]
