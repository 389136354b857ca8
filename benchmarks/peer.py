"""django-celery-beat's ``DatabaseScheduler``, in a process of its own, told when to look for an edit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Self
from unittest.mock import patch

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
django.setup()

from django_celery_beat.schedulers import DatabaseScheduler  # noqa: E402 - the settings come first

from benchmarks.jobs import TASK  # noqa: E402
from example_project.celery import app  # noqa: E402


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """What it took the scheduler to act on an edit."""

    cpu_ms: float
    took_ms: float


class Peer:
    """The process, seen from the benchmark."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.peer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._read_line()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()  # the end of its input is the end of the process

    def reload(self) -> Reload:
        """Let it tick until it has read the jobs anew; an edit must be there to be read."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Reload(**json.loads(self._read_line()))

    def _read_line(self) -> str:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        line = self._process.stdout.readline()
        if not line:
            message = "DatabaseScheduler has ended"
            raise RuntimeError(message)
        return line


class CountingScheduler(DatabaseScheduler):  # type: ignore[misc]  # it carries no types
    """Knows how often it read all jobs."""

    reads = 0

    def all_as_schedule(self) -> object:
        self.reads += 1
        return super().all_as_schedule()


def main() -> int:
    app.loader.import_default_modules()
    patch.object(app.tasks[TASK], "apply_async").start()  # only what it takes to find what is due
    scheduler = CountingScheduler(app=app)
    scheduler.tick()
    scheduler.tick()
    print("ready", flush=True)
    for _ in sys.stdin:
        reads, cpu_from_s, from_s = scheduler.reads, time.process_time(), time.perf_counter()
        while scheduler.reads == reads:
            scheduler.tick()
        cpu_s, took_s = time.process_time() - cpu_from_s, time.perf_counter() - from_s
        print(json.dumps(asdict(Reload(cpu_ms=cpu_s * 1000, took_ms=took_s * 1000))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
