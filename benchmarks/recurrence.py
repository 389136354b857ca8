"""What it costs to find a crontab's next due time: ``python -m benchmarks.recurrence``.

Needs no database; processor time is measured. Jobs are planned as the planner does it, from the text of their rows;
each then walks from one due time to the next.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from statistics import mean

from django_leased_cron.core.planning import parse_planned
from django_leased_cron.core.planning_inputs import COLUMNS, SEPARATOR
from django_leased_cron.core.schedule import next_due

NOW_MS = int(datetime(2026, 10, 1, tzinfo=UTC).timestamp() * 1000)
YEAR_MS = 365 * 86_400_000
GOAL_US, SPARSE_GOAL_US = 20, 1000

FIELDS = {
    "minute": ["0", "0", "0", "30", "15", "59", "*/5", "*/10", "*/15", "0,30", "*"],
    "hour": ["*", "*", "0", "2", "3", "5", "9", "22-2", "8-18", "*/6"],
    "day_of_week": ["*", "*", "*", "mon-fri", "sun", "1,3,5"],
    "day_of_month": ["*", "*", "*", "1", "1,15", "28-31"],
    "month_of_year": ["*", "*", "*", "*/3", "1"],
    "timezone": ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "US/Pacific"],
}
RARE = {
    "29 February on a Monday": {"day_of_month": "29", "month_of_year": "2", "day_of_week": "mon"},
    "every minute of such a day": {
        "minute": "*",
        "hour": "*",
        "day_of_month": "29",
        "month_of_year": "2",
        "day_of_week": "1",
    },
    "31 December on a Sunday": {"day_of_month": "31", "month_of_year": "12", "day_of_week": "0"},
    "Friday the 13th": {"day_of_month": "13", "day_of_week": "fri"},
}


def build_inputs(**columns: str) -> str:
    """Return the planning inputs of a crontab job at midnight, unless said otherwise."""
    midnight = {"minute": "0", "hour": "0", "day_of_week": "*", "day_of_month": "*", "month_of_year": "*"}
    fields = midnight | {"timezone": "America/New_York"} | columns
    values = {f"crontab_{name}": text for name, text in fields.items()} | {"crontab_id": "1", "one_off": "0"}
    return SEPARATOR.join(values.get(column, "") for column in COLUMNS)


def build_jobs(*, jobs: int, schedules: int) -> Sequence[str]:
    """Return the planning inputs of each job; the same at every run."""
    chance = random.Random(2026)  # noqa: S311 - only has to be the same at every run
    distinct: dict[str, None] = {}
    while len(distinct) < schedules:
        distinct[build_inputs(**{name: chance.choice(texts) for name, texts in FIELDS.items()})] = None
    return [text for _ in range(-(-jobs // schedules)) for text in distinct][:jobs]


def find_next(inputs: str, after_ms: int) -> int:
    due_at_ms = next_due(parse_planned(inputs, UTC), after_ms=after_ms, base_ms=after_ms)
    return after_ms if due_at_ms is None else due_at_ms


def measure_us(call: Callable[..., object], *arguments: object) -> float:
    started_at = time.process_time()
    call(*arguments)
    return (time.process_time() - started_at) * 1e6


def measure_jobs(*, jobs: int, schedules: int, rounds: int) -> bool:
    """Print what a job costs on average; return whether that keeps to the goal."""
    inputs = build_jobs(jobs=jobs, schedules=schedules)
    due = [NOW_MS] * len(inputs)

    def walk() -> None:
        due[:] = map(find_next, inputs, due)

    parse_planned.cache_clear()
    first_us = measure_us(walk) / len(inputs)
    later_us = [measure_us(walk) / len(inputs) for _ in range(rounds)]
    title = f"{len(inputs):,} jobs sharing {len(set(inputs))} crontabs, each"
    print(f"{title}: {first_us:.1f} µs the first time, with parsing (goal: {GOAL_US})")
    print(f"{title}: {mean(later_us):.1f} µs afterwards, mean of {rounds} rounds (goal: {GOAL_US})")
    return max(first_us, mean(later_us)) <= GOAL_US


def measure_rare(name: str, fields: dict[str, str], *, instants: int) -> bool:
    """Print what a rare crontab costs, from instants all over a century; return whether that keeps to the goal."""
    inputs = build_inputs(**fields)
    chance = random.Random(2026)  # noqa: S311 - as above
    found_us = []
    for _ in range(instants):
        after_ms = NOW_MS + chance.randrange(100 * YEAR_MS)
        # Of three, the quickest: the processor may have been busy with others in between.
        found_us.append(min(measure_us(find_next, inputs, after_ms) for _ in range(3)))
    years = timedelta(milliseconds=find_next(inputs, NOW_MS) - NOW_MS) / timedelta(days=365.25)
    print(
        f"{name}, next in {years:.1f} years: {mean(found_us):.1f} µs, at most {max(found_us):.1f} µs"
        f" from {instants:,} instants (goal: {SPARSE_GOAL_US})"
    )
    return max(found_us) <= SPARSE_GOAL_US


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--schedules", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--instants", type=int, default=2_000)
    options = parser.parse_args(arguments)
    kept = [measure_jobs(jobs=options.jobs, schedules=options.schedules, rounds=options.rounds)]
    kept += [measure_rare(name, fields, instants=options.instants) for name, fields in RARE.items()]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
