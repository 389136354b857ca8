"""How each value of the settings is read: what people wrote becomes what the record holds, or a problem."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

SETTING: Final = "LEASED_CRON"
SINGLE_TENANT: Final = "django_leased_cron.tenants.SingleTenant"

_SHORTEST_S: Final = 0.001  # what machines compare is whole milliseconds
_LONGEST_S: Final = 100 * 365 * 86400
_HIGHEST_PORT: Final = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with the settings: the key (``TENANTS.BACKEND`` for a nested one), what, and the remedy."""

    key: str
    message: str
    hint: str

    def __str__(self) -> str:
        return f"{SETTING}: {self.message} {self.hint}"


def read_duration(key: str, value: object) -> float | Problem:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    # bool is an int to Python, but nobody means one second by True.
    if not isinstance(value, int | float) or isinstance(value, bool):
        message = f"{key} is {value!r}, which is not a duration."
        return Problem(key=key, message=message, hint="Write seconds, such as 30 or 0.5, or a timedelta.")
    if not _SHORTEST_S <= value <= _LONGEST_S:  # false for NaN too
        message = f"{key} is {value!r} seconds, which is out of range."
        return Problem(key=key, message=message, hint=f"Write at least {_SHORTEST_S} seconds, at most a hundred years.")
    return float(value)


def read_duration_or_none(key: str, value: object) -> float | Problem | None:
    return None if value is None else read_duration(key, value)


def count_reader(*, most: int) -> Callable[[str, object], object]:
    def read_count(key: str, value: object) -> int | Problem:
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            return Problem(key=key, message=f"{key} is {value!r}.", hint=f"Write a whole number from 1 to {most}.")
        return value

    return read_count


def read_port_or_none(key: str, value: object) -> int | Problem | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _HIGHEST_PORT:
        return Problem(key=key, message=f"{key} is {value!r}.", hint=f"Write a port up to {_HIGHEST_PORT}, or None.")
    return value


def read_flag(key: str, value: object) -> bool | Problem:
    if not isinstance(value, bool):
        return Problem(key=key, message=f"{key} is {value!r}.", hint="Write True or False.")
    return value


def read_text(key: str, value: object) -> str | Problem:
    if not isinstance(value, str) or not value.strip():
        return Problem(key=key, message=f"{key} is {value!r}.", hint="Write a text that is not empty.")
    return value


def read_mapping(key: str, value: object) -> Mapping[str, object] | Problem:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        return Problem(key=key, message=f"{key} is {value!r}.", hint="Write a dict whose keys are strings.")
    return dict(value)


def read_tenants_backend(key: str, value: object) -> str | Problem:
    if not isinstance(value, str) or "." not in value:
        message = f"{key} is {value!r}, which is not a dotted path to a class."
        return Problem(key=key, message=message, hint=f"Write for example {SINGLE_TENANT!r}.")
    return value


def choice_reader(choices: type[StrEnum]) -> Callable[[str, object], object]:
    names = [choice.value for choice in choices]

    def read_choice(key: str, value: object) -> StrEnum | Problem:
        if value in names:
            return choices(value)
        hint = f"Write one of {', '.join(map(repr, names))}."
        return Problem(key=key, message=f"{key} is {value!r}.", hint=hint)

    return read_choice


def suggestion(written: object, known: Iterable[str]) -> str:
    """Return ``"Did you mean …?"`` for the nearest known name, however it was capitalised, or nothing."""
    by_lower_case = {name.lower(): name for name in known}
    nearest = difflib.get_close_matches(str(written).lower(), by_lower_case, n=1)
    return f"Did you mean {by_lower_case[nearest[0]]!r}?" if nearest else ""
