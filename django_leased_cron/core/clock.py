"""The two times a process may know, kept apart by type.

Local deadlines run on *boot time*: it never steps and, unlike ``time.monotonic()`` on Linux, goes on counting while
the machine is suspended or the process is stopped, so a holder that slept through its lease cannot believe in it.
Instants that machines compare are milliseconds since the Unix epoch from the database's clock, and only the database
adapters read that one.
"""

from __future__ import annotations

import time
from typing import NewType, Protocol

BootTime = NewType("BootTime", float)
"""Seconds since this machine booted; comparable only within one machine and one boot."""


class Clock(Protocol):
    """Where the loops read boot time; tests hand in one that they move by hand."""

    def boot_time(self) -> BootTime:
        """Return seconds since boot, suspend included."""
        ...


class SystemClock:
    """The machine's own boot-time clock."""

    # CLOCK_BOOTTIME exists on Linux only; elsewhere monotonic time is the nearest there is.
    _CLOCK_ID = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def boot_time(self) -> BootTime:
        return BootTime(time.clock_gettime(self._CLOCK_ID))


def later(start: BootTime, seconds: float) -> BootTime:
    """Return the boot time ``seconds`` after ``start``."""
    return BootTime(start + seconds)
