"""Figures: one JSON line each as they are measured, and a table of them at the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from django.db import connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One thing that was measured.

    Attributes:
        measure: what, with its unit; one row of the table for each measure and number of jobs.
        value: what was measured, or the median of it.
        worst: the largest, where it was measured more than once.
        goal: what it, and the largest, is not to exceed.
    """

    measure: str
    database: str
    jobs: int
    value: float
    worst: float | None = None
    goal: float | None = None

    @property
    def is_missed(self) -> bool:
        return self.goal is not None and max(self.value, self.worst or 0.0) > self.goal

    def __str__(self) -> str:
        texts = [_round(number) for number in (self.value, self.worst) if number is not None]
        return " / ".join(texts) + (" (!)" if self.is_missed else "")


def report(measure: str, *values: float, jobs: int, goal: float | None = None) -> None:
    """Print a figure; several values are told as their median and the largest."""
    figure = Figure(
        measure=measure,
        database=connection.display_name,
        jobs=jobs,
        value=round(median(values), 3),
        worst=round(max(values), 3) if len(values) > 1 else None,
        goal=goal,
    )
    sys.stdout.write(json.dumps(asdict(figure)) + "\n")
    sys.stdout.flush()


def tell(text: str) -> None:
    """Say how far it is, beside the figures."""
    sys.stderr.write(f"  {text}\n")


def build_table(figures: Sequence[Figure]) -> str:
    """Return a Markdown table: a row for each measure and number of jobs, a column for each database."""
    databases = sorted({figure.database for figure in figures}, reverse=True)
    rows = {(figure.measure, figure.jobs): dict.fromkeys(databases, "") for figure in figures}
    for figure in figures:
        rows[figure.measure, figure.jobs][figure.database] = str(figure)
    heading = ["measure: median / worst", "jobs", *databases]
    lines = [heading, ["---"] * len(heading)]
    lines += [[measure, f"{jobs:,}", *cells.values()] for (measure, jobs), cells in rows.items()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _round(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
