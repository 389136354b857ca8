"""Weeks of jobs, edits, outages and takeovers beside the model: a sample of what ``make simulate`` runs for a year."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import pytest

from tests.simulation import simulation
from tests.simulation.model import DueInstants, find_due_instants
from tests.simulation.simulation import Simulation, Size
from tests.simulation.timeline import CrontabPlan

# Clocks are turned in these days: in Gaza, Nuuk, Europe and Easter Island, Australia and New Zealand.
SPRING: Final = datetime(2027, 3, 20, tzinfo=UTC)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("database_alias", ["sqlite"], indirect=True)
@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_dispatched_and_skipped_is_what_the_model_says(database_alias: str, seed: int) -> None:
    """Whatever people edit meanwhile, and whenever processes end."""
    size = Size(seed=seed, start_at=SPRING, jobs=100, crontabs=60, zones=30, days=16, edits=120, ends=30)
    outcome = Simulation(database_alias, size).run()
    assert outcome.differences == []
    assert outcome.dispatched > 1000
    assert outcome.edits > 150
    assert outcome.died_in_a_batch > 4
    assert outcome.repeated > 0
    assert outcome.replaced > 0
    assert set(outcome.missed) == {"catch_up", "window"}


@pytest.mark.parametrize("database_alias", ["sqlite"], indirect=True)
def test_comparison_finds_jobs_on_the_wrong_clocks(database_alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that knows no zones does not agree."""

    def find_in_utc(plans: Iterable[CrontabPlan], *, start_ms: int, end_ms: int) -> DueInstants:
        plans = list(plans)
        in_utc = {plan: CrontabPlan(fields=plan.fields, zone="UTC") for plan in plans}
        found = find_due_instants(set(in_utc.values()), start_ms=start_ms, end_ms=end_ms)
        return {plan: found[in_utc[plan]] for plan in plans}

    monkeypatch.setattr(simulation, "find_due_instants", find_in_utc)
    size = Size(seed=3, start_at=SPRING, jobs=60, crontabs=30, zones=5, days=4, edits=0, ends=0)
    differences = Simulation(database_alias, size).run().differences
    assert {difference.partition(":")[0] for difference in differences} >= {"dispatched", "not dispatched"}
