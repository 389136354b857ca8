"""The database goes away while schedulers run, in each of the ways in which databases do, and comes back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.acceptance import faults
from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.forms import others_in_full
from tests.acceptance.lines import ServerLine
from tests.acceptance.ordeal import undergo

_AWAY_S = 5.0
_BACK_WITHIN_S = 3.0

Harm = Callable[[ServerLine], None]
on_servers = pytest.mark.parametrize("stack", ["postgres-redis", "mariadb-rabbitmq"], indirect=True)
on_own_servers = pytest.mark.parametrize("stack", ["postgres-redis", "mariadb-redis"], indirect=True)


@pytest.mark.parametrize(
    "stack", others_in_full("postgres-redis", "mariadb-rabbitmq", "sqlite-filesystem"), indirect=True
)
def test_refuse_connections_to_the_database(cuttable_fleet: Fleet, report: Report) -> None:
    """As a server that is down, or a file that is gone for a while: all goes out when it is back, once."""
    fleet = cuttable_fleet
    fleet.migrate()
    ordeal = undergo(fleet, faults.cut_off(fleet.database.line), seconds=_AWAY_S)
    report(ordeal)
    ordeal.assert_nothing_was_harmed(within_s=_BACK_WITHIN_S)


@pytest.mark.full
@on_servers
@pytest.mark.parametrize(
    "harm", [pytest.param(ServerLine.deafen, id="questions lost"), pytest.param(ServerLine.mute, id="answers lost")]
)
def test_half_open_connections_to_the_database(cuttable_fleet: Fleet, harm: Harm, report: Report) -> None:
    """Connections that nothing comes through, in one direction, are given up and hang no loop."""
    fleet = cuttable_fleet
    fleet.migrate()
    ordeal = undergo(fleet, faults.half_open(fleet.database.line, harm), seconds=_AWAY_S)
    report(ordeal)
    ordeal.assert_nothing_was_harmed(within_s=_BACK_WITHIN_S)


@pytest.mark.full
@on_servers
def test_terminate_every_session_once_a_second(fleet: Fleet, report: Report) -> None:
    """Sessions that the server ends, busy or idle, are replaced."""
    ordeal = undergo(fleet, faults.sessions_terminated(fleet, every_s=1.0), seconds=10)
    report(ordeal)
    ordeal.assert_nothing_was_harmed(within_s=_BACK_WITHIN_S, sent_again=60, outages=10)


@pytest.mark.full
@on_own_servers
@pytest.mark.parametrize("polite", [True, False], ids=["stopped", "killed"])
def test_restart_the_database(fleet_on_own_servers: Fleet, polite: bool, report: Report) -> None:  # noqa: FBT001
    """A server that is stopped or killed, and started again."""
    fleet = fleet_on_own_servers
    ordeal = undergo(fleet, faults.database_down(fleet, polite=polite), seconds=_AWAY_S)
    report(ordeal)
    ordeal.assert_nothing_was_harmed(within_s=_BACK_WITHIN_S)


@pytest.mark.full
@on_own_servers
def test_make_the_database_read_only(fleet_on_own_servers: Fleet, report: Report) -> None:
    """As after a fail-over to a replica: nothing goes out, and all when it can be written to again."""
    fleet = fleet_on_own_servers
    faults.give_a_user_of_its_own(fleet)
    ordeal = undergo(fleet, faults.read_only(fleet), seconds=_AWAY_S)
    report(ordeal)
    # On PostgreSQL open sessions are ended to make it so and to undo it: that may be noticed, too.
    ordeal.assert_nothing_was_harmed(within_s=_BACK_WITHIN_S, outages=2)
