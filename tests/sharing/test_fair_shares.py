"""Shares of many tenants through random events; ``make simulate-shares`` has the size that is promised."""

from __future__ import annotations

from tests.sharing.story import EVENTS, Story, find_faults
from tests.sharing.world import World


def test_shares_stay_fair_and_every_tenant_is_held_in_time() -> None:
    """Through joins, crashes, polite ends, freezes, partitions and several at once, with few moves too many."""
    story = Story(world=World(tenants=100, seed=1), processes=5)
    outcomes = list(story.tell(len(EVENTS) + 2))
    assert {outcome.event: faults for outcome in outcomes if (faults := find_faults(outcome))} == {}
    later = outcomes[1:]
    assert sum(outcome.moves for outcome in later) <= 1.5 * sum(outcome.least for outcome in later)


def test_one_tenant_stays_where_it_is() -> None:
    """However many processes there are: nothing is evened out by moving it."""
    world = World(tenants=1, seed=1)
    for _ in range(3):
        world.join()
    world.run(120)
    assert world.moves == 1
    assert world.given == 0
