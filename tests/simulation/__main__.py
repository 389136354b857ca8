"""A year of jobs, edits, outages and takeovers beside the model: ``python -m tests.simulation``.

Everything but time and the broker is real: rows, planner, claims, adoptions and confirms, on SQLite. Prints what was
simulated, and each difference; exits 1 if there is one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from time import perf_counter

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from django.conf import settings  # noqa: E402 - the settings come first
from django.test.utils import setup_databases, teardown_databases  # noqa: E402

from tests.simulation.simulation import Outcome, Simulation, Size  # noqa: E402

_ALIAS = "sqlite"
_REPORTED = 20


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start-at", type=_read_day, default="2027-01-01", metavar="DAY")
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--crontabs", type=int, default=600, help="rows that the jobs share")
    parser.add_argument("--zones", type=int, default=30)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--edits", type=int, default=2500, help="moments at which people edit one job or several")
    parser.add_argument("--ends", type=int, default=200, help="moments at which a process ends")
    size = Size(**vars(parser.parse_args(arguments)))
    started_at = perf_counter()
    settings.SQLITE_FOLDER.mkdir(exist_ok=True)
    undo = setup_databases(verbosity=0, interactive=False, aliases={_ALIAS: False}, serialized_aliases=[])
    try:
        outcome = Simulation(_ALIAS, size).run()
    finally:
        teardown_databases(undo, verbosity=0)
        shutil.rmtree(settings.SQLITE_FOLDER, ignore_errors=True)
    _report(size, outcome, seconds=perf_counter() - started_at)
    return 1 if outcome.differences else 0


def _read_day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _report(size: Size, outcome: Outcome, *, seconds: float) -> None:
    for difference in outcome.differences[:_REPORTED]:
        _say(difference)
    _say(
        f"{size.days} days from {size.start_at:%Y-%m-%d}, seed {size.seed}:"
        f" {size.jobs} jobs in {size.zones} zones at first"
    )
    _say(f"edits: {outcome.edits:,}, crontabs: {outcome.crontabs:,}")
    _say(f"outages: {outcome.outages}, of which {outcome.died_in_a_batch} in the middle of a batch")
    _say(f"takeovers: {outcome.takeovers}; frozen processes that went on after one: {outcome.woke_up_late}")
    _say(f"occurrences dispatched: {outcome.dispatched:,}, in {outcome.messages:,} messages")
    missed = ", ".join(f"{count:,} {reason}" for reason, count in sorted(outcome.missed.items()))
    _say(f"slots skipped: {missed}; lost to edits: {outcome.replaced:,}; claims given up: {outcome.given_up:,}")
    _say(f"differences: {len(outcome.differences)}")
    _say(f"({seconds:.0f} s)")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
