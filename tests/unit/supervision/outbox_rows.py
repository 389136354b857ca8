"""Rows that an outbox in memory keeps."""

from __future__ import annotations

from dataclasses import dataclass

from django_leased_cron.core.occurrence import OccurrenceState
from django_leased_cron.core.outbox import JobMessage, UnconfirmedClaim


@dataclass(slots=True, kw_only=True)
class Job:
    """The row that people edit."""

    inputs: str
    message: JobMessage
    enabled: bool = True


@dataclass(slots=True, kw_only=True)
class Occurrence:
    """One row of the outbox."""

    id: int
    job_id: int
    due_at_ms: int
    state: OccurrenceState
    epoch: int
    attempt: int = 0
    task_id: str = ""
    delivery: str = ""
    claimed_at_ms: int = 0
    reason: str = ""

    @property
    def claim(self) -> UnconfirmedClaim:
        return UnconfirmedClaim(occurrence_id=self.id, epoch=self.epoch, attempt=self.attempt)
