"""Doing one thing beside another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class RunBeside(Protocol):
    def __call__(self, call: Callable[[], Result], /) -> Future[Result]: ...


def run_in_thread(call: Callable[[], Result]) -> Future[Result]:
    """Start a call in a thread of its own; the future has its result or its error.

    A thread each, not a pool: they are few a second, what they wait for is bounded, and none must keep a process from
    ending.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            result = call()
        except BaseException as exc:  # noqa: BLE001 - whoever waits for the result gets it
            future.set_exception(exc)
        else:
            future.set_result(result)

    threading.Thread(target=run, name="leased-cron-claim", daemon=True).start()
    return future
