"""A deadline on the client's side, for drivers that have none.

PostgreSQL's own timeouts need a server that still speaks; the kernel's need a peer that stopped acknowledging. A
server or a pooling proxy that takes the bytes and never answers is ended by neither, and the loop would hang. So each
transaction is watched, and when its time is over its socket is shut down: the driver then fails as if the peer had
closed it.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django_leased_cron.core.clock import BootTime, Clock, SystemClock, later


class SocketDeadlines:
    """Watches any number of sockets with one thread, which runs only while something is watched."""

    _LINGER_S = 5.0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._watched: dict[int, tuple[BootTime, int]] = {}
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watch(self, fileno: int, *, seconds: float) -> Iterator[None]:
        """Shut the socket down if the block takes longer; the socket must stay open for as long as the block."""
        number = next(self._numbers)
        with self._changed:
            self._watched[number] = later(self._clock.boot_time(), seconds), fileno
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="database-deadlines", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._watched.pop(number, None)

    def _run(self) -> None:
        with self._changed:
            idle_since = self._clock.boot_time()
            while True:
                at = self._clock.boot_time()
                for number, (deadline, fileno) in list(self._watched.items()):
                    if deadline <= at:
                        del self._watched[number]
                        _shut_down(fileno)
                if self._watched:
                    idle_since = at
                elif at - idle_since > self._LINGER_S:
                    self._thread = None
                    return
                # Looking once a second is exact enough for deadlines of seconds, and costs nothing.
                self._changed.wait(1.0)


def _shut_down(fileno: int) -> None:
    with suppress(OSError), socket.socket(fileno=os.dup(fileno)) as duplicate:
        duplicate.shutdown(socket.SHUT_RDWR)


DEADLINES = SocketDeadlines(SystemClock())
