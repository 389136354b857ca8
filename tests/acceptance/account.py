"""What came due, against what reached the broker and what ran."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from django_leased_cron.core.occurrence import build_task_id
from tests.acceptance.tap import Message

Due = tuple[int, int]
"""Job id and the instant, in milliseconds since 1970, at which it came due."""


def read_runs(path: Path) -> Sequence[str]:
    """Return the task id of each run that ``example_project.tasks.record`` has noted in a file."""
    return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Everything by task id, which an occurrence has for ever, however often it is sent.

    Attributes:
        due: what had to be dispatched.
        messages: what arrived at the broker, in order, of what was due.
        runs: how often it ran.
        strangers: task ids that arrived and were not due.
    """

    due: Mapping[str, Due]
    messages: Mapping[str, Sequence[Message]]
    runs: Mapping[str, int]
    strangers: frozenset[str]

    @property
    def lost(self) -> Sequence[Due]:
        """What was due and never reached the broker."""
        return sorted(due for task_id, due in self.due.items() if task_id not in self.messages)

    @property
    def not_run(self) -> Sequence[Due]:
        return sorted(due for task_id, due in self.due.items() if task_id not in self.runs)

    @property
    def sent_again(self) -> frozenset[str]:
        """Task ids of which more than one message arrived."""
        return frozenset(task_id for task_id, messages in self.messages.items() if len(messages) > 1)

    @property
    def indistinct(self) -> frozenset[str]:
        """Task ids of which two messages carry the same attempt, so that a worker could not tell them apart."""
        copies = self.messages.items()
        return frozenset(task_id for task_id, sent in copies if len({copy.attempt for copy in sent}) < len(sent))

    @property
    def run_twice(self) -> frozenset[str]:
        return frozenset(task_id for task_id, runs in self.runs.items() if runs > 1)

    def worst_lateness_ms(self, *, without: Iterable[str] = ()) -> int:
        """Return the longest time from an occurrence's due time to its first message."""
        left_out = frozenset(without)
        latenesses = [messages[0].lateness_ms for task_id, messages in self.messages.items() if task_id not in left_out]
        return max(latenesses, default=0)

    def __str__(self) -> str:
        return (
            f"{len(self.due)} due, {len(self.due) - len(self.lost)} dispatched, {len(self.lost)} lost,"
            f" {len(self.sent_again)} sent again, {len(self.runs)} ran, {len(self.run_twice)} run twice"
        )


def draw_up(due: Iterable[Due], *, period: range, messages: Iterable[Message], runs: Iterable[str]) -> Account:
    """Compare; messages of what came due outside of the period, in milliseconds since 1970, are left out."""
    expected = {build_task_id(tenant_key="default", job_id=job_id, due_at_ms=at): (job_id, at) for job_id, at in due}
    messages_by_id: defaultdict[str, list[Message]] = defaultdict(list)
    strangers = set()
    for message in messages:
        if message.task_id in expected:
            messages_by_id[message.task_id].append(message)
        elif message.due_at_ms in period:
            strangers.add(message.task_id)
    ran = Counter(task_id for task_id in runs if task_id in expected)
    return Account(due=expected, messages=messages_by_id, runs=ran, strangers=frozenset(strangers))
