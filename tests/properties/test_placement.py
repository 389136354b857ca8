"""Moves between processes come to an end, whatever the shares were."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.test_placement import held, members, moves_of, view


@given(counts=st.lists(st.integers(min_value=0, max_value=40), min_size=2, max_size=6))
def test_moves_come_to_an_end_with_shares_that_differ_by_little(counts: list[int]) -> None:
    """Each round all processes carry out what they planned; no round undoes another."""
    names = [f"p{number}" for number in range(len(counts))]
    present = members(*names)
    shown = view(present, **dict(zip(names, counts, strict=True)))
    for _ in range(200):
        moves = [move for name in names for move in moves_of(name, shown)]
        if not moves:
            break
        moved = {move.tenant_key: held(move.tenant_key, move.successor_id) for move in moves}
        shown = replace(shown, leases={**shown.leases, **moved})
    shares = Counter(dict.fromkeys(names, 0)) + Counter(row.holder_id for row in shown.leases.values())
    left = [shares[name] for name in names]
    assert max(left) - min(left) <= max(1, 0.1 * sum(counts) / len(counts))
