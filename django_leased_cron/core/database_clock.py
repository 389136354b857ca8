"""What this process may think of the database's clock.

Two questions are answered here, by values alone:

* can this reading be a time of day at all (:func:`is_plausible`)? Zero, NULL and the like are refused where they are
  read, before anything is decided by them;
* where does the database's clock stand at a moment of boot time (:class:`DatabaseClockEstimate`)? From one reading it
  is known only that the clock was read somewhere between sending and receiving, so a reading is an interval of
  offsets, and two readings contradict each other only where their intervals do not meet: a slow reply, or a process
  frozen in the middle of one, is not a step of the clock.

A clock that steps by more than :data:`STEP_TOLERANCE_MS` against boot time is not trusted until three readings in a
row agree; meanwhile nothing is to be claimed by it.

Not promised: accuracy beyond the round trip of the tightest reading of the last minute, plus what the two clocks
drift apart in that minute.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final, TypeGuard

from django_leased_cron.core.clock import BootTime, later

EARLIEST_MS: Final = 1_577_836_800_000
"""2020-01-01: before this app existed."""
LATEST_MS: Final = 7_258_118_400_000
"""2200-01-01."""
STEP_TOLERANCE_MS: Final = 5000
READINGS_TO_TRUST: Final = 3
_LONGEST_USE_S: Final = 60.0


def is_plausible(reading_ms: object) -> TypeGuard[int]:
    """Return whether a reading can be a time of day: an integer between 2020 and 2200."""
    return isinstance(reading_ms, int) and EARLIEST_MS <= reading_ms <= LATEST_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    """One reading; the clock showed ``now_ms`` at some moment from ``sent_at`` to ``received_at``."""

    now_ms: int
    sent_at: BootTime
    received_at: BootTime

    @property
    def width_s(self) -> float:
        return self.received_at - self.sent_at

    @property
    def lowest_offset_ms(self) -> float:
        return self.now_ms - self.received_at * 1000

    @property
    def highest_offset_ms(self) -> float:
        return self.now_ms - self.sent_at * 1000

    def distance_ms(self, other: _Sample) -> float:
        """Return by how much the two contradict each other; at most 0: they do not."""
        return max(
            self.lowest_offset_ms - other.highest_offset_ms,
            other.lowest_offset_ms - self.highest_offset_ms,
        )


class DatabaseClockEstimate:
    """Where one database's clock stands, judged by its readings; shared by all who read it, in any thread."""

    def __init__(self) -> None:
        self._noting = threading.Lock()
        self._best: _Sample | None = None
        self._suspects: list[_Sample] = []

    @property
    def is_trusted(self) -> bool:
        """Whether there is a reading and none since then that contradicts it beyond the tolerance."""
        return self._best is not None and not self._suspects

    def note(self, now_ms: int, *, sent_at: BootTime, received_at: BootTime) -> None:
        """Take in one plausible reading, with the boot times around the round trip that brought it."""
        with self._noting:
            self._note(_Sample(now_ms=now_ms, sent_at=sent_at, received_at=received_at))

    def _note(self, sample: _Sample) -> None:
        if self._best is None:
            self._best = sample
        elif self._suspects or sample.distance_ms(self._best) > STEP_TOLERANCE_MS:
            self._suspect(sample)
        elif self._is_better(sample, self._best):
            self._best = sample

    def now_ms(self, at: BootTime) -> int:
        """Return the most likely reading of the database's clock at a boot time."""
        best = self._known()
        return round((best.lowest_offset_ms + best.highest_offset_ms) / 2 + at * 1000)

    def boot_time_of(self, at_ms: int) -> BootTime:
        """Return the first boot time at which the database's clock surely shows ``at_ms``: never early."""
        best = self._known()
        return later(best.received_at, (at_ms - best.now_ms) / 1000)

    def _known(self) -> _Sample:
        if self._best is None:
            message = "the database's clock was never read"
            raise LookupError(message)
        return self._best

    def _suspect(self, sample: _Sample) -> None:
        agrees = all(sample.distance_ms(suspect) <= STEP_TOLERANCE_MS for suspect in self._suspects)
        self._suspects = [*self._suspects, sample] if agrees else [sample]
        if len(self._suspects) == READINGS_TO_TRUST:
            # The newest: the ones before it may have been read while the clock was still being slewed.
            self._best, self._suspects = sample, []

    @staticmethod
    def _is_better(sample: _Sample, best: _Sample) -> bool:
        return (
            sample.width_s <= best.width_s
            or sample.received_at - best.received_at > _LONGEST_USE_S
            or sample.distance_ms(best) > 0  # the clock has been moved, by little: the newer one is right
        )
