"""The broker goes away while schedulers run, in each of the ways in which brokers do, and comes back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from redis import Redis

from tests.acceptance import faults
from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.forms import others_in_full
from tests.acceptance.lines import ServerLine
from tests.acceptance.ordeal import undergo
from tests.acceptance.repeating import repeating
from tests.acceptance.stacks import STACKS

_AWAY_S = 5.0
_BACK_WITHIN_S = 3.0
_IN_HAND = 3
"""The jobs of one due time: what one term may have in hand when the broker's replies stop coming."""

Harm = Callable[[ServerLine], None]
on_servers = pytest.mark.parametrize("stack", ["postgres-redis", "mariadb-rabbitmq"], indirect=True)
on_own_servers = pytest.mark.parametrize("stack", ["postgres-redis", "mariadb-rabbitmq"], indirect=True)
on_own_redis = pytest.mark.parametrize("stack", ["postgres-redis", "mariadb-redis"], indirect=True)


@pytest.mark.parametrize("stack", others_in_full(*STACKS), indirect=True)
def test_lose_the_broker_for_some_seconds(cuttable_fleet: Fleet, report: Report) -> None:
    """Nothing is lost, everything is sent once, and nobody takes over from anybody."""
    fleet = cuttable_fleet
    fleet.migrate()
    ordeal = undergo(fleet, faults.cut_off(fleet.broker.line), seconds=_AWAY_S)
    report(ordeal)
    ordeal.assert_nothing_was_harmed(within_s=_BACK_WITHIN_S)
    assert ordeal.takeovers == 0


@pytest.mark.full
@on_servers
@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(ServerLine.deafen, id="messages lost"),
        pytest.param(ServerLine.mute, id="replies lost"),
        pytest.param(ServerLine.silence, id="both lost"),
    ],
)
def test_half_open_connections_to_the_broker(cuttable_fleet: Fleet, harm: Harm, report: Report) -> None:
    """A publication that hangs is given up in time; what may have arrived is sent again, with the same task id."""
    fleet = cuttable_fleet
    fleet.migrate()
    ordeal = undergo(fleet, faults.half_open(fleet.broker.line, harm), seconds=_AWAY_S)
    report(ordeal)
    ordeal.assert_nothing_was_harmed(within_s=_BACK_WITHIN_S, sent_again=_IN_HAND)
    assert ordeal.takeovers == 0


@pytest.mark.full
@on_own_servers
@pytest.mark.timeout(120)  # RabbitMQ takes its time to start
def test_restart_the_broker(fleet_on_own_servers: Fleet, report: Report) -> None:
    """A server that is killed and started again."""
    fleet = fleet_on_own_servers
    ordeal = undergo(fleet, faults.down(fleet.own_broker, polite=False), seconds=_AWAY_S)
    report(ordeal)
    ordeal.assert_nothing_was_harmed(within_s=_BACK_WITHIN_S)
    assert ordeal.takeovers == 0


@pytest.mark.full
@on_own_servers
@pytest.mark.timeout(120)  # RabbitMQ takes its time to start
def test_freeze_the_broker(fleet_on_own_servers: Fleet, report: Report) -> None:
    """Nobody answers, and what was written meanwhile arrives later: what is sent again then has another attempt."""
    fleet = fleet_on_own_servers
    ordeal = undergo(fleet, faults.frozen(fleet.own_broker), seconds=_AWAY_S)
    report(ordeal)
    ordeal.assert_nothing_was_harmed(within_s=_BACK_WITHIN_S, sent_again=_IN_HAND)
    assert ordeal.takeovers == 0


@pytest.mark.full
@on_own_redis
def test_let_the_broker_lose_its_data(fleet_on_own_servers: Fleet, report: Report) -> None:
    """Queues that are gone are made anew by the next message; what was in them is the broker's loss."""
    fleet = fleet_on_own_servers
    client = Redis.from_url(fleet.servers["redis"].url)
    ordeal = undergo(fleet, repeating(client.flushall, every_s=1.0), seconds=_AWAY_S)
    client.close()
    report(ordeal)
    # Between two batches: none of them lies in the broker when it forgets.
    ordeal.assert_nothing_was_harmed(within_s=_BACK_WITHIN_S)
    assert ordeal.takeovers == 0
