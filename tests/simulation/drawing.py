"""Schedules and policies drawn at random: mostly sparse ones, and hardest on the nights on which clocks change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from tests.simulation.timeline import CrontabPlan

# Where clocks are turned in every way, and where they are not.
ZONES: Final = (
    "Europe/Berlin",
    "America/New_York",
    "UTC",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Europe/Dublin",
    "America/Santiago",
    "Africa/Casablanca",
    "Antarctica/Troll",
    "America/Havana",
    "America/St_Johns",
    "Africa/Cairo",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Jerusalem",
    "Asia/Kolkata",
    "Asia/Tokyo",
    "Atlantic/Azores",
    "Australia/Adelaide",
    "Australia/Sydney",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "Pacific/Easter",
    "Pacific/Kiritimati",
    "America/Los_Angeles",
    "America/Nuuk",
    "America/Sao_Paulo",
    "Europe/Chisinau",
    "Europe/London",
    "Europe/Moscow",
)
_CRONTABS_BY_TYPE: Final[Sequence[tuple[int, Callable[[Random], str]]]] = (
    (1, lambda random: f"{_minute(random)} * * * *"),
    (2, lambda random: f"{_minute(random)} */{random.choice((2, 3, 4, 5, 6, 12))} * * *"),
    (1, lambda random: f"{_minute(random)},{_minute(random)} {random.randrange(5)}-{random.randrange(5, 9)} * * *"),
    (12, lambda random: f"{_minute(random)} {random.randrange(4)} * * *"),
    (20, lambda random: f"{_minute(random)} {random.randrange(24)} * * *"),
    (10, lambda random: f"{_minute(random)} {random.randrange(24)} * * mon-fri"),
    (35, lambda random: f"{_minute(random)} {random.randrange(24)} * * {random.randrange(7)}"),
    (10, lambda random: f"{_minute(random)} {random.randrange(24)} {random.randrange(1, 32)} * *"),
    (5, lambda random: f"{_minute(random)} {random.randrange(24)} 1-7 */3 sat,sun"),
    (
        5,
        lambda random: (
            f"{_minute(random)} {random.randrange(24)} {random.randrange(1, 29)} {random.randrange(1, 13)} *"
        ),
    ),
)
INTERVALS_S: Final = (5400, 43_200, 75_600, 86_400, 90_000, 302_400, 604_800, 2_592_000)
SHARE_OF_INTERVALS: Final = 0.15
POLICIES: Final = (None, None, None, ("skip", None), ("once", 21_600), ("all", None), ("all", 43_200), ("", 14_400))


def _minute(random: Random) -> int:
    return random.choice((0, 0, 15, 30, 45, random.randrange(60)))


def draw_crontab(random: Random, zones: Sequence[str]) -> CrontabPlan:
    weights, builders = zip(*_CRONTABS_BY_TYPE, strict=True)
    [build] = random.choices(builders, weights)
    return CrontabPlan(fields=build(random), zone=random.choice(zones))
