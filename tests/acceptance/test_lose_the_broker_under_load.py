"""The broker stops while much is due: an outage must not become an outbox of its length, or a storm of takeovers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.forms import DEFAULTS
from tests.acceptance.ordeal import EVERYTHING, undergo
from tests.acceptance.repeating import repeating

_A_SECOND = 50


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("leased_cron", "seconds"),
    [
        pytest.param(EVERYTHING, 6.0, id="short"),
        pytest.param({**DEFAULTS, "CATCH_UP": "all"}, 60.0, id="full"),
    ],
)
@pytest.mark.parametrize("stack", ["postgres-redis", "mariadb-rabbitmq"], indirect=True)
def test_stop_the_broker_under_load(
    cuttable_fleet: Fleet, leased_cron: Mapping[str, object], seconds: float, report: Report
) -> None:
    """Nobody takes over, two batches wait at most, and all of it goes out when the broker is back."""
    fleet = cuttable_fleet
    fleet.migrate()
    waiting: list[int] = []
    fault = _away_and_watched(fleet, waiting)
    ordeal = undergo(
        fleet,
        fault,
        seconds=seconds,
        supervisors=3,
        jobs_count=_A_SECOND,
        afterwards_s=seconds / 4 + 3,
        leased_cron=leased_cron,
    )
    report(f"{ordeal}, {max(waiting)} in the outbox at most")
    # What was being published when the connections ended may have arrived.
    ordeal.assert_nothing_was_harmed(within_s=3 + seconds / 4, sent_again=_A_SECOND)
    assert ordeal.takeovers == 0
    assert max(waiting) <= 2 * _A_SECOND


@contextmanager
def _away_and_watched(fleet: Fleet, waiting: list[int]) -> Iterator[None]:
    fleet.broker.line.cut()
    with repeating(lambda: waiting.append(len(fleet.read_claimed())), every_s=0.2):
        yield
    fleet.broker.line.restore()
