"""One line an outage, however many tries fail in it."""

from __future__ import annotations

import pytest

from django_leased_cron.core.events import DatabaseOutage, DatabaseRecovered
from django_leased_cron.exceptions import CommitOutcomeUnknownError, DatabaseUnavailableError, MissingTableError
from django_leased_cron.supervision.outage import OutageWatch
from django_leased_cron.testing import EventLog

AWAY = DatabaseUnavailableError("acme", "connection refused")
UNKNOWN = CommitOutcomeUnknownError("acme", "the reply to COMMIT never came")
NO_TABLE = MissingTableError("acme", "leased_cron_schedulerlease")


@pytest.fixture
def events() -> EventLog:
    return EventLog()


@pytest.fixture
def watch(events: EventLog) -> OutageWatch:
    return OutageWatch(alias="acme", doing="renewing leases", emit=events.append)


def test_outage_is_told_once(watch: OutageWatch, events: EventLog) -> None:
    """With what was being done, where, and what the database said first."""
    for detail in ("connection refused", "server closed the connection", "timeout"):
        watch.failed(DatabaseUnavailableError("acme", detail))
    assert events == [
        DatabaseOutage(alias="acme", doing="renewing leases", detail="database 'acme': connection refused")
    ]


def test_recovery_is_told_once_and_only_after_an_outage(watch: OutageWatch, events: EventLog) -> None:
    """What always worked is no news."""
    watch.worked()
    assert events == []
    watch.failed(AWAY)
    watch.worked()
    watch.worked()
    assert events.of(DatabaseRecovered) == [DatabaseRecovered(alias="acme", doing="renewing leases")]


def test_next_outage_is_told_again(watch: OutageWatch, events: EventLog) -> None:
    """It is another one."""
    for _ in range(2):
        watch.failed(AWAY)
        watch.worked()
    assert len(events.of(DatabaseOutage)) == 2


def test_other_kind_of_error_is_told_too_and_once(watch: OutageWatch, events: EventLog) -> None:
    """The server is back and lacks its tables: another remedy. Kinds that take turns are still one outage."""
    for error in (AWAY, UNKNOWN, AWAY, UNKNOWN, NO_TABLE, AWAY):
        watch.failed(error)
    assert [event.detail for event in events.of(DatabaseOutage)] == [str(AWAY), str(UNKNOWN), str(NO_TABLE)]
