"""SIGTERM and SIGINT: the first asks for the orderly end, the second ends at once."""

from __future__ import annotations

import logging
import os
import signal
import socket
from types import FrameType
from typing import Final

logger = logging.getLogger("django_leased_cron")

SECOND_SIGNAL_EXIT: Final = 1


class StopSignals:
    """Waits for the first signal in the main thread.

    A socket pair and not a ``threading.Event``: the handler runs in the thread that waits, perhaps while that holds
    the event's own lock, and would wait for itself.
    """

    def __init__(self) -> None:
        self._woken, self._waker = socket.socketpair()
        self._seen = 0

    def install(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)

    def wait(self) -> None:
        """Return at the first signal."""
        self._woken.recv(1)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._seen += 1
        if self._seen > 1:
            logger.warning(
                "Second signal: ending at once, leases are left to expire", extra={"event": "supervisor.aborted"}
            )
            os._exit(SECOND_SIGNAL_EXIT)
        self._waker.send(b"\0")
