"""Processes of the example project, and the signals that operators and machines send them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.acceptance.waiting import wait_until

REPOSITORY = Path(__file__).resolve().parents[2]


class Process:
    """One process, addressed by its pid; what it writes goes to a file."""

    def __init__(self, name: str, arguments: Sequence[str], *, environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self._log = log
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=REPOSITORY,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def __repr__(self) -> str:
        return f"{self.name} (pid {self.pid}, {'alive' if self.is_alive else f'exit {self._popen.returncode}'})"

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def is_alive(self) -> bool:
        return self._popen.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Return how it ended; minus the signal's number, if one ended it."""
        return self._popen.poll()

    def kill(self) -> None:
        """SIGKILL, and be sure that it is gone."""
        self._popen.kill()
        self._popen.wait()

    def freeze(self) -> None:
        """SIGSTOP, and be sure that it stands still."""
        self._popen.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def resume(self) -> None:
        """SIGCONT."""
        self._popen.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        """SIGTERM."""
        self._popen.terminate()

    def wait_for_exit(self, *, within_s: float) -> int:
        """Return the exit code."""
        wait_until(lambda: not self.is_alive, f"{self} to exit", within_s=within_s, every_s=0.005)
        return self._popen.returncode

    def read_log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def wait_for_line(self, *parts: str, within_s: float = 15.0) -> str:
        """Return the first line of the log that has all these parts."""

        def find() -> str | None:
            assert self.is_alive, f"{self}:\n{self.read_log()}"
            lines = self.read_log().splitlines()
            return next((line for line in lines if all(part in line for part in parts)), None)

        return wait_until(find, f"{self} to write a line with {parts!r}", within_s=within_s)
