"""The one place where acceptance tests sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def try_until(condition: Callable[[], Found | None], *, within_s: float, every_s: float = 0.02) -> Found | None:
    """Return what the condition returns as soon as that is true; ``None`` if it is not in time.

    Args:
        condition: asked again and again; ``None``, ``False`` and what is empty mean "not yet".
        within_s: how long it is asked.
        every_s: seconds between two askings.
    """
    deadline = time.monotonic() + within_s
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() >= deadline:
            return None
        time.sleep(every_s)


def wait_until(condition: Callable[[], Found | None], what: str, *, within_s: float, every_s: float = 0.02) -> Found:
    """Return what the condition returns as soon as that is true; fail if it is not in time.

    Args:
        what: is waited for, as the end of the sentence "waited … s for".
    """
    found = try_until(condition, within_s=within_s, every_s=every_s)
    assert found, f"waited {within_s:g} s for {what}"
    return found


def now_ms() -> int:
    """Return the machine's wall clock, which is also that of all its databases, in milliseconds since 1970."""
    return round(time.time() * 1000)


def wait_for_instant(at_ms: int) -> None:
    """Return when the wall clock has reached an instant."""
    left_s = max(0.0, (at_ms - now_ms()) / 1000)
    wait_until(lambda: now_ms() >= at_ms, "the time to come", within_s=left_s + 1, every_s=0.001)


def next_second_ms(*, after_s: float = 0.0) -> int:
    """Return the first whole second that is more than ``after_s`` away."""
    return (now_ms() + round(after_s * 1000)) // 1000 * 1000 + 1000
