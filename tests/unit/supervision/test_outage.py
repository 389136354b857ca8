"""One line an outage, however many tries fail in it."""

from __future__ import annotations

import pytest

from django_leased_cron.core.events import DatabaseOutage, DatabaseRecovered
from django_leased_cron.exceptions import (
    CommitOutcomeUnknownError,
    DatabaseUnavailableError,
    DatabaseUnreachableError,
    MissingTableError,
)
from django_leased_cron.supervision.outage import OutageFold, OutageWatch
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


class Watches:
    """Three things that are done with one database, and one with another, told of through one fold."""

    def __init__(self, events: EventLog) -> None:
        emit = OutageFold(events.append).emit
        self.looking = OutageWatch(alias="acme", doing="looking at leases", emit=emit)
        self.renewing = OutageWatch(alias="acme", doing="renewing leases", emit=emit)
        self.scheduling = OutageWatch(alias="acme", doing="scheduling", emit=emit)
        self.elsewhere = OutageWatch(alias="umbra", doing="looking at leases", emit=emit)


@pytest.fixture
def watches(events: EventLog) -> Watches:
    return Watches(events)


def unreachable(detail: str) -> DatabaseUnreachableError:
    return DatabaseUnreachableError("acme", detail)


def test_a_database_that_cannot_be_reached_is_told_of_once(watches: Watches, events: EventLog) -> None:
    """However many things fail of it, and in whatever words; its end is told when all of them work again."""
    watches.renewing.failed(unreachable("connection refused"))
    watches.looking.failed(unreachable("timeout expired"))
    watches.scheduling.failed(UNKNOWN)
    watches.renewing.worked()
    watches.scheduling.worked()
    assert [event.detail for event in events.of(DatabaseOutage)] == ["database 'acme': connection refused"]
    assert not events.of(DatabaseRecovered)
    watches.looking.worked()
    assert events.of(DatabaseRecovered) == [DatabaseRecovered(alias="acme", doing="renewing leases")]


def test_what_fails_for_the_same_reason_is_one_outage(watches: Watches, events: EventLog) -> None:
    """A database that became read-only, say; another reason is another outage, and so is another database."""
    watches.renewing.failed(DatabaseUnavailableError("acme", "read-only"))
    watches.scheduling.failed(DatabaseUnavailableError("acme", "read-only"))
    watches.looking.failed(DatabaseUnavailableError("acme", "lock timeout"))
    watches.elsewhere.failed(DatabaseUnavailableError("umbra", "read-only"))
    assert [event.detail for event in events.of(DatabaseOutage)] == [
        "database 'acme': read-only",
        "database 'acme': lock timeout",
        "database 'umbra': read-only",
    ]
    watches.elsewhere.worked()
    watches.scheduling.worked()
    watches.renewing.worked()
    assert [(event.alias, event.doing) for event in events.of(DatabaseRecovered)] == [
        ("umbra", "looking at leases"),
        ("acme", "renewing leases"),
    ]


def test_next_outage_of_something_else_is_told_too(watches: Watches, events: EventLog) -> None:
    """Nothing is left open by an outage that is over."""
    watches.renewing.failed(unreachable("connection refused"))
    watches.renewing.worked()
    watches.looking.failed(unreachable("connection refused"))
    assert len(events.of(DatabaseOutage)) == 2
