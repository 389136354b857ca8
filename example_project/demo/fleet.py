"""The demo's processes: schedulers by letter, and one worker. Each is addressed by its own process id."""

from __future__ import annotations

import signal
import string
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

WORKER = "worker"
ROOT = Path(__file__).resolve().parents[2]
_SCHEDULER = ("manage.py", "run_leased_scheduler")
_WORKER = (
    *("-m", "celery", "--app", "example_project", "worker", "--pool", "solo"),
    *("--without-gossip", "--without-mingle", "--without-heartbeat"),
)
_POLITE_END_S = 5.0
_LOG_TAIL = 15


class DemoError(Exception):
    """The demo cannot go on; carries what the logs say."""

    def __init__(self, problem: str, log_lines: Iterable[str]) -> None:
        super().__init__("\n".join((problem, *log_lines)))


@dataclass(slots=True, kw_only=True)
class Member:
    """One process, and whether the demo means it to be gone."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    is_dismissed: bool = False

    def __str__(self) -> str:
        return f"{self.name} (pid {self.process.pid})"

    def kill(self) -> None:
        self.is_dismissed = True
        self.process.send_signal(signal.SIGKILL)

    def stop(self) -> None:
        self.is_dismissed = True
        self.process.send_signal(signal.SIGTERM)

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def log_size(self) -> int:
        return self.log.stat().st_size

    def read_log(self) -> Iterator[str]:
        """Yield the end of its log."""
        yield f"The end of the log of {self}:"
        yield from self.logged_since(0)[-_LOG_TAIL:]

    def logged_since(self, size: int) -> list[str]:
        """Return the lines of its log after its first ``size`` bytes."""
        return self.log.read_bytes()[size:].decode(errors="replace").splitlines()


class Fleet:
    """Starts processes, and ends every one of them when the block ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._letters = iter(string.ascii_uppercase)
        self._members: list[Member] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # nothing is to interrupt this
        self._end(self._members)

    def start_scheduler(self) -> Member:
        return self._start(next(self._letters), *_SCHEDULER)

    def start_worker(self) -> Member:
        return self._start(WORKER, *_WORKER)

    def find(self, pid: int) -> Member | None:
        return next((member for member in self._members if member.process.pid == pid), None)

    def check(self) -> None:
        """Raise ``DemoError`` if a process ended that nobody had asked to."""
        for member in self._members:
            code = member.process.poll()
            if code is not None and not member.is_dismissed:
                message = f"{member} ended by itself with exit code {code}"
                raise DemoError(message, member.read_log())

    def read_logs(self) -> Iterator[str]:
        for member in self._members:
            yield from member.read_log()

    def end_schedulers(self) -> None:
        self._end([member for member in self._members if member.name != WORKER])

    def end_worker(self) -> None:
        self._end([member for member in self._members if member.name == WORKER])

    def _end(self, members: Sequence[Member]) -> None:
        """End these politely, and after a while with SIGKILL; returns when they are gone."""
        running = [member for member in members if member.process.poll() is None]
        for member in running:
            member.stop()
            member.resume()  # a frozen process cannot see that it is asked
        deadline = time.monotonic() + _POLITE_END_S
        for member in running:
            try:
                member.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.kill()
                member.process.wait()

    def _start(self, name: str, *arguments: str) -> Member:
        log = self._folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,  # Ctrl-C reaches the demo alone, which then ends them in order
            )
        member = Member(name=name, process=process, log=log)
        self._members.append(member)
        return member
