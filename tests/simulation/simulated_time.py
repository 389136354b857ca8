"""Boot time and the database's clock as one, moved by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from django.db.backends.base.base import BaseDatabaseWrapper

from django_leased_cron.core.clock import BootTime
from django_leased_cron.database.sqlite import SQLiteDialect

_BOOTED_BEFORE_MS: Final = 1_000_000
_FUNCTION: Final = "simulated_now_ms"


class SimulatedTime:
    """What every process boots by and the database reads; moves only forward, and only when told to."""

    def __init__(self, at_ms: int) -> None:
        self._booted_at_ms = at_ms - _BOOTED_BEFORE_MS
        self._boot_time = BootTime(_BOOTED_BEFORE_MS / 1000)

    @property
    def now_ms(self) -> int:
        """The database's clock."""
        return self._booted_at_ms + round(self._boot_time * 1000)

    def boot_time(self) -> BootTime:
        return self._boot_time

    def advance(self, seconds: float) -> None:
        assert seconds >= 0
        self._boot_time = BootTime(self._boot_time + seconds)

    def advance_to(self, at_ms: int) -> None:
        """Move on to an instant, unless it has passed."""
        if at_ms > self.now_ms:
            self._boot_time = BootTime((at_ms - self._booted_at_ms) / 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedDialect(SQLiteDialect):
    """SQLite whose statements read the simulated clock: nothing else is replaced."""

    time: SimulatedTime
    now_ms: str = field(default=f"{_FUNCTION}()", init=False)

    def prepare(self, connection: BaseDatabaseWrapper) -> Sequence[str]:
        connection.connection.create_function(_FUNCTION, 0, lambda: self.time.now_ms)
        # What is not there after a power failure is no concern of a simulation.
        return [*SQLiteDialect.prepare(self, connection), "PRAGMA synchronous = OFF"]
