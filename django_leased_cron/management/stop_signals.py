"""SIGTERM and SIGINT: the first asks for the orderly end, the second ends at once.

Some parents signal a process and then its whole group (``timeout`` does), so one request arrives twice within a
millisecond: what follows the first that closely is its echo.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from types import FrameType
from typing import Final

from django_leased_cron.core.clock import BootTime, Clock, SystemClock

logger = logging.getLogger("django_leased_cron")

SECOND_SIGNAL_EXIT: Final = 1
_ECHO_S: Final = 0.05


class StopSignals:
    """Waits for the first signal in the main thread.

    A socket pair and not a ``threading.Event``: the handler runs in the thread that waits, perhaps while that holds
    the event's own lock, and would wait for itself.
    """

    def __init__(self) -> None:
        self._woken, self._waker = socket.socketpair()
        self._clock: Clock = SystemClock()
        self._asked_at: BootTime | None = None

    def install(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)

    def wait(self) -> None:
        """Return at the first signal."""
        self._woken.recv(1)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        at = self._clock.boot_time()
        if self._asked_at is not None:
            if at - self._asked_at < _ECHO_S:
                return
            logger.warning(
                "Second signal: ending at once, leases are left to expire", extra={"event": "supervisor.aborted"}
            )
            os._exit(SECOND_SIGNAL_EXIT)
        self._asked_at = at
        self._waker.send(b"\0")
