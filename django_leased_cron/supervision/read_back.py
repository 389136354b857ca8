"""Whether there may be claims of this term that nobody has in hand (A4)."""

from __future__ import annotations

from django_leased_cron.core.clock import BootTime, Clock, later
from django_leased_cron.core.outbox import ClaimOrder, ClaimReply
from django_leased_cron.supervision.predecessors import LOCKED_RETRY_S


class ReadBack:
    """Wanted from the moment at which a claim's outcome is unknown until a claim has found nothing more."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_wanted = False
        self._not_before = BootTime(0.0)

    def outcome_unknown(self) -> None:
        self._is_wanted = True

    def is_due(self, at: BootTime) -> bool:
        return self._is_wanted and at >= self._not_before

    @property
    def due_at(self) -> BootTime | None:
        return self._not_before if self._is_wanted else None

    def note(self, order: ClaimOrder, reply: ClaimReply) -> None:
        """Take in what a claim that was asked to read back has found; what it found locked stays so for a while."""
        if order.read_back:
            self._is_wanted = not reply.read_back_complete
            self._not_before = later(self._clock.boot_time(), LOCKED_RETRY_S if reply.locked else 0.0)
