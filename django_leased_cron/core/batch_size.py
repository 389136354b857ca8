"""How many occurrences to claim at once."""

from __future__ import annotations

FIRST_BATCH = 50
_WEIGHT_OF_NEWEST = 0.5


class BatchSizer:
    """Sizes batches so that one is published in ``batch_seconds``, by the rate measured so far.

    A batch is what one crash can repeat and how long a busy holder goes without showing progress; so it is small at
    first, when nothing is known of the broker, and never larger than ``largest``.
    """

    def __init__(self, *, batch_seconds: float, largest: int) -> None:
        self._batch_seconds = batch_seconds
        self._largest = largest
        self._rate: float | None = None

    @property
    def size(self) -> int:
        if self._rate is None:
            return min(FIRST_BATCH, self._largest)
        return max(1, min(self._largest, int(self._rate * self._batch_seconds)))

    def measure(self, published: int, *, seconds: float) -> None:
        """Take note of how long a batch took; one small for its size says little of the rate and is left out."""
        if published < max(1, min(FIRST_BATCH, self.size) // 2) or seconds <= 0:
            return
        newest = published / seconds
        old = newest if self._rate is None else self._rate
        self._rate = old + _WEIGHT_OF_NEWEST * (newest - old)
