"""Who bids first for a lease, and which tenants move so that shares even out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from django_leased_cron.core.lease import LeaseRow, SeenProcess
from django_leased_cron.core.membership import Members
from django_leased_cron.core.placement import FEW, DatabaseView, Move, find_moves, is_first_choice, order_bids

NOW_MS = 1_800_000_000_000
TTL_MS = 30_000
TENANTS = [f"tenant {number}" for number in range(300)]


def members(*holder_ids: str, **only: str) -> Members:
    """Return processes that are there; those named by keyword were started for one tenant."""
    started_for = dict.fromkeys(holder_ids, frozenset[str]()) | {key: frozenset({only[key]}) for key in only}
    return {
        holder_id: SeenProcess(holder_id=holder_id, last_seen_at_ms=NOW_MS, draining=False, tenants=tenants)
        for holder_id, tenants in started_for.items()
    }


def held(tenant_key: str, holder_id: str) -> LeaseRow:
    return LeaseRow(
        tenant_key=tenant_key,
        holder_id=holder_id,
        epoch=3,
        acquired_at_ms=NOW_MS - 60_000,
        expires_at_ms=NOW_MS + 20_000,
        progressed_at_ms=NOW_MS - 5_000,
        owed_since_ms=None,
    )


def view(present: Members, /, **counts: int) -> DatabaseView:
    """Return what a database shows in which each process holds so many tenants."""
    keys = iter(TENANTS)
    rows = [held(next(keys), holder_id) for holder_id, count in counts.items() for _ in range(count)]
    return DatabaseView(now_ms=NOW_MS, leases={row.tenant_key: row for row in rows}, members=present)


def moves_of(giver_id: str, *views: DatabaseView, under_way: Mapping[str, str] | None = None) -> list[Move]:
    return list(find_moves(views, giver_id=giver_id, under_way=under_way or {}, lease_ttl_ms=TTL_MS))


# Bids.


def test_every_tenant_has_one_first_choice_and_each_process_about_its_share() -> None:
    """Whatever order the processes are known in."""
    present = members("a", "b", "c")
    winners = Counter(
        holder_id for key in TENANTS for holder_id in present if is_first_choice(key, present, holder_id=holder_id)
    )
    assert winners.total() == len(TENANTS)
    assert min(winners.values()) > 70


def test_process_that_leaves_changes_only_the_choices_it_won() -> None:
    """The others stay where they are."""
    before, after = members("a", "b", "c"), members("a", "b")
    for key in TENANTS:
        if is_first_choice(key, before, holder_id="a"):
            assert is_first_choice(key, after, holder_id="a")


def test_first_choices_are_bid_for_first_and_nothing_is_left_out() -> None:
    """A lease never waits for shares."""
    present = members("a", "b", "c")
    order = order_bids(TENANTS, present, holder_id="a")
    assert sorted(order) == sorted(TENANTS)
    firsts = [is_first_choice(key, present, holder_id="a") for key in order]
    assert firsts == sorted(firsts, reverse=True)
    assert any(firsts)


def test_process_started_for_other_tenants_is_nobodys_first_choice() -> None:
    """It does not even look at them."""
    assert is_first_choice("acme", members("a", b="umbra"), holder_id="a")


def test_process_that_knows_nobody_bids_in_order_of_the_keys() -> None:
    """As the only one."""
    assert order_bids(["umbra", "acme"], {}, holder_id="a") == ["acme", "umbra"]


# Moves.


@pytest.mark.parametrize(
    "counts", [{"a": 1}, {"a": 1, "b": 0}, {"a": 2, "b": 1}, {"a": 4, "b": 4}, {"a": 105, "b": 96}]
)
def test_shares_that_are_level_enough_stay(counts: dict[str, int]) -> None:
    """One more is nothing, and neither is less than a tenth of the mean share: one tenant alone never moves."""
    assert moves_of("a", view(members("a", "b"), **counts)) == []


@pytest.mark.parametrize(
    ("counts", "moved"), [({"a": 2}, 1), ({"a": 3}, 1), ({"a": 5, "b": 2}, 1), ({"a": 6, "b": 2}, 2)]
)
def test_the_fuller_process_gives_until_shares_are_level(counts: dict[str, int], moved: int) -> None:
    """And not one more, which would come back."""
    shown = view(members("a", "b"), **counts)
    moves = moves_of("a", shown)
    assert len(moves) == moved
    assert {move.successor_id for move in moves} == {"b"}
    assert all(shown.leases[move.tenant_key].holder_id == "a" for move in moves)
    assert moves_of("b", shown) == []


def test_few_move_at_a_time() -> None:
    """A successor that is dead keeps few waiting."""
    assert len(moves_of("a", view(members("a", "b"), a=100))) == FEW


def test_what_a_successor_has_not_taken_up_counts_as_on_its_way() -> None:
    """It is given no more until it has; a renewal or a claim shows it."""
    shown = view(members("a", "b"), a=50, b=FEW)
    fresh = {
        key: replace(row, acquired_at_ms=NOW_MS, progressed_at_ms=NOW_MS, expires_at_ms=NOW_MS + TTL_MS)
        for key, row in shown.leases.items()
        if row.holder_id == "b"
    }
    assert moves_of("a", replace(shown, leases={**shown.leases, **fresh})) == []
    renewed = {key: replace(row, expires_at_ms=row.expires_at_ms + 1) for key, row in fresh.items()}
    assert len(moves_of("a", replace(shown, leases={**shown.leases, **renewed}))) == FEW
    claimed = {key: replace(row, progressed_at_ms=NOW_MS + 1) for key, row in fresh.items()}
    assert len(moves_of("a", replace(shown, leases={**shown.leases, **claimed}))) == FEW


def test_moves_under_way_are_not_planned_twice() -> None:
    """The view does not show them yet."""
    shown = view(members("a", "b"), a=6, b=2)
    first, second = moves_of("a", shown)
    assert moves_of("a", shown, under_way={first.tenant_key: "b"}) == [second]
    assert moves_of("a", shown, under_way={first.tenant_key: "b", second.tenant_key: "b"}) == []


def test_process_takes_only_what_it_was_started_for() -> None:
    """However little it has."""
    shown = view(members("a", b=TENANTS[5]), a=12)
    assert moves_of("a", shown) == [Move(tenant_key=TENANTS[5], successor_id="b")]
    assert moves_of("a", view(members("a", b="elsewhere"), a=12)) == []


def test_two_that_give_do_not_fill_the_same_gap() -> None:
    """Each plans for all, and carries out its own part."""
    shown = view(members("a", "b", "c"), a=5, b=5, c=2)
    assert len(moves_of("a", shown)) + len(moves_of("b", shown)) == 2


def test_shares_are_counted_over_all_databases() -> None:
    """One tenant in each, all with one process: half of them move."""
    present = members("a", "b")
    views = [
        DatabaseView(now_ms=NOW_MS, leases={key: held(key, "a")}, members=present)
        for key in ("first", "second", "third", "fourth")
    ]
    assert len(moves_of("a", *views)) == 2


def test_process_that_is_not_seen_in_a_database_is_given_nothing_there() -> None:
    """It may not list its tenants, or not reach it."""
    near = DatabaseView(
        now_ms=NOW_MS, leases={key: held(key, "a") for key in ("first", "second")}, members=members("a", "b")
    )
    far = DatabaseView(now_ms=NOW_MS, leases={key: held(key, "a") for key in ("third", "fourth")}, members=members("a"))
    moved = {move.tenant_key for move in moves_of("a", near, far)}
    assert moved == {"first", "second"}


def test_lease_that_has_run_out_is_nobodys_to_give() -> None:
    """It is for whoever bids first."""
    shown = view(members("a", "b"), a=4)
    expired = {key: replace(row, expires_at_ms=NOW_MS) for key, row in shown.leases.items()}
    assert moves_of("a", replace(shown, leases=expired)) == []
