"""How long to leave a broker alone that did not take a message."""

from __future__ import annotations

from django_leased_cron.core.clock import BootTime, later

_FIRST_S = 0.1


class BackOff:
    """Waits that double up to a bound, from the first failure to the next success."""

    def __init__(self, *, longest_s: float) -> None:
        self._longest_s = longest_s
        self._wait_s = 0.0
        self.retry_at = BootTime(0.0)

    @property
    def is_failing(self) -> bool:
        return self._wait_s > 0

    def failed(self, at: BootTime) -> None:
        self._wait_s = min(self._longest_s, max(_FIRST_S, 2 * self._wait_s))
        self.retry_at = later(at, self._wait_s)

    def worked(self) -> None:
        self._wait_s = 0.0
