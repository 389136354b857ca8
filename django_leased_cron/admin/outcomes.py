"""How an occurrence went, in a few words."""

from __future__ import annotations

from django_leased_cron.core.jitter import jittered
from django_leased_cron.core.occurrence import OccurrenceState
from django_leased_cron.display import show_duration

_LONGEST_REASON = 120


def find_lateness_ms(*, job_id: int, due_at_ms: int, sent_at_ms: int | None, jitter_s: int) -> int | None:
    """Return how long after its time, jitter included, an occurrence was at the broker; nothing if it was not sent."""
    if sent_at_ms is None:
        return None
    return max(0, sent_at_ms - jittered(due_at_ms, job_id=job_id, jitter_s=jitter_s))


def describe_outcome(state: str, *, reason: str, lateness_ms: int | None) -> str:
    """Return ``succeeded, 12 ms late`` or ``skipped: paused``."""
    words = f"{state}: {shorten(reason)}" if reason else state
    return words if lateness_ms is None else f"{words}, {show_duration(lateness_ms)} late"


def shorten(reason: str) -> str:
    """Return a reason as a list shows it."""
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}…"


def has_failed(state: str) -> bool:
    """Return whether somebody should look at an occurrence."""
    return state in {OccurrenceState.FAILED, OccurrenceState.UNCERTAIN}
