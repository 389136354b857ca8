"""5,000 tenants, 50 processes, random events: ``python -m tests.sharing``.

Prints what each event came to; exits 1 if a tenant was held too late, or shares stayed uneven.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from time import perf_counter

from tests.sharing.story import Outcome, Story, compare_moves, find_faults
from tests.sharing.world import World


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for option, default in (("tenants", 5000), ("processes", 50), ("events", 14), ("seed", 1)):
        parser.add_argument(f"--{option}", type=int, default=default, help="default: %(default)s")
    options = parser.parse_args(arguments)
    started_at = perf_counter()
    story = Story(world=World(tenants=options.tenants, seed=options.seed), processes=options.processes)
    outcomes: list[Outcome] = []
    faults = 0
    for outcome in story.tell(options.events):
        outcomes.append(outcome)
        found = find_faults(outcome)
        faults += len(found)
        _say(
            f"{outcome.event:10} {outcome.moves:6} moves, {outcome.least:6} needed, shares within"
            f" {outcome.imbalance:4.0%}, {outcome.worst_lateness_ms:5} ms late at worst {'; '.join(found)}"
        )
    for event, ratio in compare_moves(outcomes).items():
        _say(f"{event:10} {ratio:.2f} moves for each that was needed")
    _say(f"({perf_counter() - started_at:.0f} s)")
    return 1 if faults else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
