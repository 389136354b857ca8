"""Forgetting finished occurrences, a few at a time, when nothing else is to be done."""

from __future__ import annotations

from django_leased_cron.core.clock import Clock, later
from django_leased_cron.core.outbox import Outbox

_EVERY_S = 60.0
_NOTHING_OLD_S = 600.0
_AT_ONCE = 500


class History:
    """Keeps what is younger than the retention."""

    def __init__(self, outbox: Outbox, *, retention_s: float, clock: Clock) -> None:
        self._outbox = outbox
        self._older_than_ms = round(retention_s * 1000)
        self._clock = clock
        self._due_at = later(clock.boot_time(), _EVERY_S)

    def purge(self) -> None:
        """Delete one batch if it is time; the next follows at once while there is more."""
        at = self._clock.boot_time()
        if at >= self._due_at:
            purged = self._outbox.purge(older_than_ms=self._older_than_ms, limit=_AT_ONCE)
            self._due_at = at if purged == _AT_ONCE else later(at, _EVERY_S if purged else _NOTHING_OLD_S)
