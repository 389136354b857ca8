"""Clocks that a test sets, for processes that read the machine's: libfaketime, before they start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

_PLACES = ("/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/local/lib/faketime")


class OtherClock:
    """The wall clock of every process that is started with :attr:`environment`; boot time goes on as it is."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._library = _require_library()
        self.set(0)
        file.chmod(0o644)

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "LD_PRELOAD": self._library,
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DISABLE_SHM": "1",
        }

    def set(self, ahead_s: int) -> None:
        """Let it show that many seconds more than the machine's clock, from now on."""
        written = self._file.with_suffix(".new")
        written.write_text(f"{ahead_s:+d}s\n")
        written.chmod(0o644)
        written.replace(self._file)  # nobody reads half of it


def _require_library() -> str:
    """Return the path of the library, or skip the test; with ``CI=true`` a missing one is a failure."""
    found = [path for place in _PLACES for path in Path("/").glob(f"{place[1:]}/libfaketimeMT.so.1")]
    if found:
        return str(found[0])
    message = "libfaketime is not installed (Debian: apt-get install libfaketime)"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)
