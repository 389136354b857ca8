"""What a process, and the database on its behalf, have used of this machine so far (Linux)."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from django.db import connection

_SCHEDULED_CLOCK: Final = 2
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_SAMPLE_S: Final = 0.25


def read_cpu_s(pid: int) -> float:
    """Return the CPU time of a process and all its threads: clock_getcpuclockid(3), to the nanosecond."""
    return time.clock_gettime((~pid << 3) | _SCHEDULED_CLOCK)


def read_peak_mb(pid: int) -> float:
    """Return the largest resident size that a process ever had."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


class DatabaseCpu(Protocol):
    """Reads the CPU time of the database's connections but this one; a connection that ended is not in it."""

    def read(self) -> Mapping[int, float]:
        """Return seconds by connection."""
        ...


class PostgresCpu:
    """A backend is a process, also that of an autovacuum or a parallel scan."""

    def read(self) -> Mapping[int, float]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            pids = [pid for (pid,) in cursor.fetchall()]
        return {pid: read_cpu_s(pid) for pid in pids if _read_name(pid).startswith("postgres")}


class MariaDBCpu:
    """A connection is a thread; the server's own, which write and purge for all, are left out."""

    def read(self) -> Mapping[int, float]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT tid FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
            )
            return {tid: _read_thread_cpu_s(tid) for (tid,) in cursor.fetchall()}


class SQLiteCpu:
    """The scheduler's own."""

    def read(self) -> Mapping[int, float]:
        return {}


_BY_VENDOR: Final[Mapping[str, type[DatabaseCpu]]] = {
    "postgresql": PostgresCpu,
    "mysql": MariaDBCpu,
    "sqlite": SQLiteCpu,
}


class CpuMeter:
    """Adds up what a scheduler and its database use from now on."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._database = _BY_VENDOR[connection.vendor]()
        self._seen = dict(self._database.read())
        self.database_s = 0.0
        self._process_from_s = read_cpu_s(pid)

    @property
    def process_s(self) -> float:
        return read_cpu_s(self._pid) - self._process_from_s

    def wait(self, seconds: float) -> None:
        """Wait, and look now and then: what a connection used since the last look is lost when it ends."""
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0:
            time.sleep(min(left_s, _SAMPLE_S))
            self.look()

    def look(self) -> None:
        found = self._database.read()
        self.database_s += sum(used_s - self._seen.get(key, 0.0) for key, used_s in found.items())
        self._seen.update(found)


def _read_name(pid: int) -> str:
    """Return what the kernel calls a process of this machine; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except FileNotFoundError:
        return ""


def _read_thread_cpu_s(tid: int) -> float:
    for path in Path("/proc").glob(f"[0-9]*/task/{tid}/stat"):
        after_name = path.read_text().rpartition(")")[2].split()
        return (int(after_name[11]) + int(after_name[12])) / _TICKS_PER_S
    return 0.0
