"""The two forms of each test: a short one with scaled settings, and the one that is promised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest

SCALED: Final[Mapping[str, object]] = {
    "LEASE_TTL": 3,
    "HEARTBEAT": 1,
    "RESCUE_AFTER": 1,
    "POLL_INTERVAL": 0.25,
    "PUBLISH_TIMEOUT": 2,
}
DEFAULTS: Final[Mapping[str, object]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How long and how often."""

    leased_cron: Mapping[str, object]
    seconds: int
    kills: int
    freezes: int
    stops: int
    rolls: int
    storms: int
    storm_jobs: int


SHORT: Final = Form(leased_cron=SCALED, seconds=8, kills=2, freezes=1, stops=2, rolls=1, storms=1, storm_jobs=1500)
FULL: Final = Form(leased_cron=DEFAULTS, seconds=60, kills=10, freezes=5, stops=5, rolls=3, storms=10, storm_jobs=5000)


def others_in_full(*values: str) -> list[Any]:
    """Return values of a parameter of which only the first is for `make test`."""
    first, *others = values
    return [first, *(pytest.param(value, marks=pytest.mark.full) for value in others)]


in_both_forms = pytest.mark.parametrize(
    "form",
    [
        pytest.param(SHORT, id="short"),
        pytest.param(FULL, id="full", marks=[pytest.mark.full, pytest.mark.timeout(900)]),
    ],
)
