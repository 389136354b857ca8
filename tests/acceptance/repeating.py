"""Something done again and again while a test waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import connections


@contextmanager
def repeating(act: Callable[[], object], *, every_s: float) -> Iterator[None]:
    """Act at once and then every so many seconds, in a thread of its own; what it raises is raised at the end."""
    over = threading.Event()
    errors: list[Exception] = []

    def run() -> None:
        try:
            while True:
                act()
                if over.wait(every_s):
                    return
        except Exception as exc:  # noqa: BLE001 - raised below, where the test sees it
            errors.append(exc)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    for error in errors:
        raise error
