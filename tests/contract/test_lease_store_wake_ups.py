"""What ends a standby's wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from django.db import connections

from django_leased_cron.core.lease import ProcessReport, WakeUps
from django_leased_cron.exceptions import DatabaseUnavailableError
from django_leased_cron.lease_store import build_wake_ups
from django_leased_cron.lease_store.postgres import PostgresListener
from tests.contract.lease_stores import Stores

LONG_S = 30
on_postgres = pytest.mark.parametrize("database_alias", ["postgres"], indirect=True)


@pytest.fixture
def wake_ups(stores: Stores) -> Iterator[WakeUps]:
    """Return wake-ups that have settled: the first wait on a new connection ends at once, for what was missed."""
    with closing(build_wake_ups(stores.alias, stores.dialect())) as wake_ups:
        wake_ups.wait(0)
        yield wake_ups


@pytest.fixture
def listener(stores: Stores) -> Iterator[PostgresListener]:
    with closing(PostgresListener(stores.alias, stores.dialect())) as listener:
        assert listener.wait(LONG_S)
        yield listener


def test_wait_is_over_when_its_time_is_up(wake_ups: WakeUps) -> None:
    """Without a reason to look."""
    assert wake_ups.wait(0.01) is False
    assert wake_ups.wait(0) is False


def test_wake_ends_the_next_wait_once(wake_ups: WakeUps) -> None:
    """However often it was called meanwhile."""
    for _ in range(100_000):
        wake_ups.wake()
    assert wake_ups.wait(LONG_S) is True
    while wake_ups.wait(0):  # a flood may take more than one look to drain
        pass
    assert wake_ups.wait(0.01) is False


def test_another_thread_ends_a_wait_that_goes_on(wake_ups: WakeUps) -> None:
    """A stop signal does not wait for the poll."""
    waker = threading.Timer(0.05, wake_ups.wake)
    waker.start()
    assert wake_ups.wait(LONG_S) is True
    waker.join()


def test_wake_after_close_harms_nobody(stores: Stores) -> None:
    """A signal may come late."""
    wake_ups = build_wake_ups(stores.alias, stores.dialect())
    wake_ups.close()
    wake_ups.wake()


@on_postgres
def test_release_wakes_the_standbys_at_once(stores: Stores, listener: PostgresListener) -> None:
    """With the commit that makes it visible."""
    stores.put()
    stores.build().release(tenant_key="acme", holder_id="other", epoch=7)
    assert listener.wait(LONG_S) is True
    assert listener.wait(0) is False
    assert stores.row().holder_id == ""


@on_postgres
def test_hand_over_wakes_the_successor_at_once(stores: Stores, listener: PostgresListener) -> None:
    """And everybody else, who have nothing to do then."""
    stores.put()
    store = stores.build()
    store.report_process(
        ProcessReport(holder_id="next", host="web-1", pid=42, version="0.1", draining=False, tenants=[])
    )
    store.hand_over(tenant_key="acme", holder_id="other", epoch=7, successor_id="next")
    assert listener.wait(LONG_S) is True
    assert stores.row().holder_id == "next"


@on_postgres
def test_release_that_released_nothing_wakes_nobody(stores: Stores, listener: PostgresListener) -> None:
    """A late message of an old term."""
    stores.put()
    stores.build().release(tenant_key="acme", holder_id="other", epoch=6)
    assert listener.wait(0.1) is False


@on_postgres
def test_request_to_hand_over_wakes_the_holder_at_once(stores: Stores, listener: PostgresListener) -> None:
    """One that asked nobody wakes nobody."""
    seen = stores.put()
    stores.build().request_hand_over(replace(seen, epoch=6))
    assert listener.wait(0.1) is False
    stores.build().request_hand_over(seen)
    assert listener.wait(LONG_S) is True
    assert stores.row().hand_over_requested_at_ms is not None


@on_postgres
def test_announcement_made_between_two_waits_is_not_lost(stores: Stores, listener: PostgresListener) -> None:
    """The holder released while the standby was reading."""
    assert listener.wait(0) is False
    stores.put()
    stores.build().release(tenant_key="acme", holder_id="other", epoch=7)
    assert listener.wait(LONG_S) is True


@on_postgres
def test_lost_connection_ends_one_wait_and_is_made_anew(stores: Stores, listener: PostgresListener) -> None:
    """What was announced meanwhile is lost, so each wait ends until announcements are heard again."""
    with connections[stores.alias].cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    while not is_deaf(listener):  # the server's farewell and the end of the connection may arrive apart
        assert listener.wait(LONG_S) is True
    assert listener.wait(LONG_S) is True
    assert not is_deaf(listener)
    assert listener.wait(0) is False


def is_deaf(listener: PostgresListener) -> bool:
    return isinstance(listener.problem, DatabaseUnavailableError)


@on_postgres
def test_database_that_is_down_leaves_the_poll(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits last their time, can be ended, and announcements are heard again when it is back."""
    with closing(PostgresListener(stores.alias, stores.dialect())) as listener:
        with monkeypatch.context() as patch:
            patch.setitem(connections[stores.alias].settings_dict, "PORT", "1")
            assert listener.wait(0.01) is False
            assert is_deaf(listener)
            listener.wake()
            assert listener.wait(LONG_S) is True
        assert listener.wait(LONG_S) is True  # it listens again
        stores.put()
        stores.build().release(tenant_key="acme", holder_id="other", epoch=7)
        assert listener.wait(LONG_S) is True
        assert listener.wait(0) is False
