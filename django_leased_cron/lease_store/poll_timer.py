"""Wake-ups where the database cannot announce anything: the poll is all there is."""

from __future__ import annotations

import threading


class PollTimer:
    """A wait that another thread may end."""

    def __init__(self) -> None:
        self._woken = threading.Event()

    def wait(self, timeout_s: float) -> bool:
        woken = self._woken.wait(timeout_s)
        self._woken.clear()
        return woken

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        """Nothing is held."""
