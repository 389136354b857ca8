"""Every turn of every zone's clocks, and whole years, beside the oracle: ``python -m tests.sweep``.

Prints what was compared, and each difference; exits 1 if there is one. ``--zones`` takes only some of them, for a
first look.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from multiprocessing.pool import Pool
from time import perf_counter
from typing import TypeVar
from zoneinfo import available_timezones

from tests.sweep.compare import CRONTABS, Comparison, Difference, compare
from tests.sweep.stretches import FIRST_YEAR, LAST_YEAR, around_turns, find_turns, group_by_clocks, whole_years

_REPORTED = 20
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zones", nargs="+", metavar="ZONE", help="only these; default: all, and whole years")
    only = parser.parse_args(arguments).zones
    started_at = perf_counter()
    keys = sorted(only or available_timezones())
    with Pool() as pool:
        turns = dict(zip(keys, _follow("zones read", pool.imap, find_turns, keys), strict=True))
        clocks = group_by_clocks(turns)
        stretches = [stretch for each in clocks for stretch in around_turns(each)]
        years = [] if only else list(whole_years())
        # The years first: they take longest.
        compared = list(_follow("stretches compared", pool.imap_unordered, compare, [*years, *stretches]))
    differences = [difference for comparison in compared for difference in comparison.differences]
    for difference in differences[:_REPORTED]:
        _say(_describe(difference))
    all_turns = sum(len(found) for _, found in turns.values())
    _say(f"{FIRST_YEAR} to {LAST_YEAR}: {len(keys)} zones with {all_turns:,} changes of offset")
    _say(f"  of which {len(clocks)} can be told apart, with {len(stretches):,} changes: 3 days on each side swept")
    _say(f"whole years: {len(years)}")
    _say(f"crontabs: {len(CRONTABS)}")
    _say(f"due instants compared: {_count(compared):,}")
    _say(f"differences: {len(differences)}")
    _say(f"({perf_counter() - started_at:.0f} s)")
    return 1 if differences else 0


def _follow(
    what: str,
    run: Callable[[Callable[[_Item], _Result], Iterable[_Item], int], Iterable[_Result]],
    do: Callable[[_Item], _Result],
    items: Sequence[_Item],
) -> Iterable[_Result]:
    """Run through the items and show how far it is, where somebody watches."""
    for number, result in enumerate(run(do, items, 1), start=1):
        if sys.stderr.isatty() and (number % 20 == 0 or number == len(items)):
            sys.stderr.write(f"\r{what}: {number} of {len(items)}" + ("\n" if number == len(items) else ""))
        yield result


def _count(compared: Iterable[Comparison]) -> int:
    return sum(comparison.slots for comparison in compared)


def _describe(difference: Difference) -> str:
    stretch = difference.stretch
    return (
        f"{difference.fields!r} in {stretch.zone} from {_show(stretch.start)} to {_show(stretch.end)}:"
        f" left out {[*map(_show, difference.only_expected[:3])]}, added {[*map(_show, difference.only_found[:3])]},"
        f" wrong when asked from {[*map(_show, difference.asked_from[:3])]}"
    )


def _show(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
