"""The standby's loop: what goes wrong in it, what ends its wait, and how it ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import SimpleQueue
from unittest.mock import Mock

import pytest

from django_leased_cron.core.events import DatabaseOutage, DatabaseRecovered, Event, LeaseAcquired, LoopFailed
from django_leased_cron.core.lease import FREE, TakeoverReason
from django_leased_cron.exceptions import DatabaseUnavailableError
from tests.unit.supervision.process import TENANT
from tests.unit.supervision.standby_bench import StandbyBench, acquired

AWAY = DatabaseUnavailableError("default", "connection refused")
A_WHILE = 20.0


@pytest.fixture
def running() -> Iterator[StandbyBench]:
    """Return a bench whose loop the test starts; it is stopped afterwards."""
    bench = StandbyBench()
    yield bench
    bench.standby.stop(timeout_s=5)


def test_database_that_is_away_is_told_once_and_waited_for(running: StandbyBench) -> None:
    """A process that starts too early goes on by itself when the thing comes back."""
    running.leases.acts.lose_request("read", AWAY, times=50)
    running.standby.start()
    told = [running.events.get(timeout=5) for _ in range(4)]
    assert isinstance(told[0], DatabaseOutage)
    assert {type(event) for event in told[1:]} == {DatabaseRecovered, LeaseAcquired}


def test_row_that_stays_locked_is_told_once(running: StandbyBench) -> None:
    """Not at each poll, though the other things a poll does work."""
    running.hold("umbra")
    running.leases.acts.lose_request("try_acquire", AWAY, times=20)
    running.standby.start()
    told: list[Event] = []
    while not told or not isinstance(told[-1], LeaseAcquired):
        told.append(running.events.get(timeout=5))
    assert sum(isinstance(event, DatabaseOutage) for event in told) == 1


def test_error_of_ours_does_not_end_the_loop(running: StandbyBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A standby that died is no standby."""
    with monkeypatch.context() as broken:
        broken.setattr(running.leases, "read", Mock(side_effect=ZeroDivisionError))
        running.standby.start()
        assert isinstance(running.events.get(timeout=5), LoopFailed)
    while not isinstance(running.events.get(timeout=5), LeaseAcquired):
        pass


def test_wake_up_ends_the_wait(running: StandbyBench) -> None:
    """A release is noticed at once, not at the next poll; so is the end."""
    running.hold(TENANT)
    running.hold("umbra")
    running.standby = running.build(poll_interval_s=A_WHILE)
    running.standby.start()
    assert running.wake_ups.waits.get(timeout=5) == A_WHILE
    running.leases.release(tenant_key=TENANT, holder_id="other", epoch=5)
    running.wake_ups.wake()
    assert running.events.get(timeout=5) == acquired(TENANT, 6, TakeoverReason.FREE, previous=FREE)
    running.standby.stop(timeout_s=1)
    assert "leased-cron-standby-default" not in {thread.name for thread in threading.enumerate()}


def test_wake_up_may_be_an_edit_and_is_passed_on_to_the_holder(running: StandbyBench) -> None:
    """The database says that something happened, not what."""
    running.standby = running.build(poll_interval_s=A_WHILE)
    running.standby.start()
    running.wake_ups.waits.get(timeout=5)
    woken = SimpleQueue[str]()
    running.acme.on_wake = lambda: woken.put(TENANT)
    running.wake_ups.wake()
    assert woken.get(timeout=5) == TENANT


def test_no_bid_is_made_after_the_stop(running: StandbyBench) -> None:
    """What is released from then on is for others."""
    running.hold(TENANT)
    running.hold("umbra")
    running.standby.start()
    running.standby.stop(timeout_s=5)
    running.leases.release(tenant_key=TENANT, holder_id="other", epoch=5)
    running.standby.poll()
    assert running.holders() == [FREE, "other"]
