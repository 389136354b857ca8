"""Jobs that come due with the sun.

Where the sun is takes astronomy, which an adapter brings (the extra ``solar``). Here is what the rows may say.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Protocol

EVENTS: Final = (
    "dawn_astronomical",
    "dawn_nautical",
    "dawn_civil",
    "sunrise",
    "solar_noon",
    "sunset",
    "dusk_civil",
    "dusk_nautical",
    "dusk_astronomical",
)
"""What Celery knows, from morning to night."""


class SolarCalculator(Hashable, Protocol):
    """Knows where the sun will be; threads share it."""

    def find_next(self, event: str, *, latitude: Decimal, longitude: Decimal, after_ms: int) -> int | None:
        """Return the first instant of an event strictly later than ``after_ms``; ``None`` if there is none in a year.

        The same event must not be found again from itself, however the calculation rounds.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SolarRecurrence:
    """An event of the sun, as seen from a place (degrees, north and east are positive)."""

    event: str
    latitude: Decimal
    longitude: Decimal
    calculator: SolarCalculator = field(compare=False, repr=False)

    def next_after(self, after_ms: int) -> int | None:
        """Return the first due instant strictly later than ``after_ms``."""
        return self.calculator.find_next(
            self.event, latitude=self.latitude, longitude=self.longitude, after_ms=after_ms
        )
