"""The count at the end: what was due by the schedules, against the occurrences' rows and the worker's own file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from django_leased_cron.models import Occurrence
from example_project.demo.account import Takeover, find_lateness_ms
from example_project.demo.jobs import Due

_HEADINGS = ("job", "due", "dispatched", "sent again", "run twice", "lost", "worst lateness")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The figures of one job, or of all."""

    name: str
    due: int
    dispatched: int
    sent_again: int
    run_twice: int
    lost: int
    worst_lateness_ms: int

    @property
    def cells(self) -> tuple[str, ...]:
        figures = (self.due, self.dispatched, self.sent_again, self.run_twice, self.lost)
        return (self.name, *map(str, figures), f"{self.worst_lateness_ms} ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The end of the demo."""

    jobs: Sequence[Tally]
    total: Tally
    not_due: int
    """Occurrences in the table, of the span that was counted, that no schedule asks for."""
    takeovers: Sequence[Takeover]

    @property
    def is_clean(self) -> bool:
        return self.total.run_twice == self.total.lost == self.not_due == 0

    def lines(self) -> Iterator[str]:
        yield ""
        for cells in (_HEADINGS, *(tally.cells for tally in (*self.jobs, self.total))):
            yield "  ".join(f"{cell:>{max(8, len(heading))}}" for cell, heading in zip(cells, _HEADINGS, strict=True))
        yield ""
        for takeover in self.takeovers:
            yield f"{takeover.old} was {takeover.deed}: {takeover.new} took over {takeover.after_ms} ms later"
        if self.not_due:
            yield f"{self.not_due} occurrences were recorded that were not due."
        yield "Nothing was lost, nothing was run twice." if self.is_clean else "THIS IS NOT AS IT SHOULD BE."


def read_runs() -> Mapping[str, int]:
    """Return how often each task id was run, from the file that the worker appends to."""
    file = Path(os.environ["EXAMPLE_RECORD_FILE"])
    return Counter(line.split()[0] for line in file.read_text().splitlines()) if file.exists() else {}


def count(due: Sequence[Due], *, start_ms: int, end_ms: int, takeovers: Sequence[Takeover]) -> Summary:
    """Compare what was due from ``start_ms`` to ``end_ms`` with what was dispatched and run."""
    dispatched = Occurrence.objects.exclude(state="skipped").filter(due_at_ms__range=(start_ms, end_ms))
    rows = {row.task_id: row for row in dispatched}
    runs = read_runs()
    names = list(dict.fromkeys(one.job for one in due))
    return Summary(
        jobs=[_tally(name, [one for one in due if one.job == name], rows, runs) for name in names],
        total=_tally("all", due, rows, runs),
        not_due=len(rows.keys() - {one.task_id for one in due}),
        takeovers=takeovers,
    )


def _tally(name: str, due: Sequence[Due], rows: Mapping[str, Occurrence], runs: Mapping[str, int]) -> Tally:
    found = [rows[one.task_id] for one in due if one.task_id in rows]
    lateness_ms = [ms for row in found if (ms := find_lateness_ms(row)) is not None]
    return Tally(
        name=name,
        due=len(due),
        dispatched=len(lateness_ms),
        sent_again=sum(row.attempt > 1 for row in found),
        run_twice=sum(runs.get(one.task_id, 0) > 1 for one in due),
        lost=sum(runs.get(one.task_id, 0) == 0 for one in due),
        worst_lateness_ms=max(lateness_ms, default=0),
    )
