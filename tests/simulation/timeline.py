"""What happened in a simulation, in order: what people did, and at what moments the scheduler acted on what.

It says which jobs were looked at, never what was decided about them: that is for the model to say once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CrontabPlan:
    """The five fields, in crontab(5)'s order, and the zone in which they are read."""

    fields: str
    zone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalPlan:
    every_s: int


Plan = CrontabPlan | IntervalPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A job as people left it. ``plan`` is ``None`` where its schedule's row is gone."""

    plan: Plan | None
    enabled: bool = True
    catch_up: str = "once"
    window_s: int = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A job is another one from now on, whether or not anybody has noticed; ``None``: it was deleted."""

    at_ms: int
    job_id: int
    definition: Definition | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A term compared these jobs with their plans."""

    at_ms: int
    job_ids: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One occurrence on its way to the broker."""

    occurrence_id: int
    job_id: int
    due_at_ms: int
    attempt: int
    task_id: str

    @property
    def slot(self) -> tuple[int, int]:
        """The job and its due instant."""
        return self.job_id, self.due_at_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A term examined due jobs, each with the most firings it had room for, then what others had left.

    Attributes:
        adopted: the occurrences that it asked to adopt, by their ids.
        granted: what it may publish.
    """

    at_ms: int
    most_by_job: Mapping[int, int]
    adopted: Sequence[int]
    granted: Sequence[Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """The database was told that the broker has these occurrences."""

    occurrence_ids: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """A process ended in the middle of a batch of which the broker has these messages; nothing of it is confirmed."""

    accepted: Sequence[Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rested:
    """A living term had nothing more to do at this moment."""

    at_ms: int


Happening = Edited | Planned | Claimed | Confirmed | Died | Rested
