"""Run benchmarks, each on databases and brokers of its own, and print all figures as one table.

``python -m benchmarks``: all of them, as ``make bench`` does. ``python -m benchmarks edits --database sqlite --rounds
5``: one of them; options that are not known here are its own. A server that does not answer is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import django
import pytest

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
django.setup()

from benchmarks.figures import Figure, build_table, tell  # noqa: E402 - the settings come first
from tests.acceptance.stacks import STACKS, build_stack  # noqa: E402

_STACKS: Final = {stack.split("-")[0]: stack for stack in STACKS}
_TITLES: Final = {"postgres": "PostgreSQL", "mariadb": "MariaDB", "sqlite": "SQLite"}
_BENCHMARKS: Final[Mapping[str, Sequence[str]]] = {
    "storm": ["postgres", "sqlite"],
    "edits": list(_STACKS),
    "footprint": ["postgres"],
    "edit_cost": ["postgres"],
    "takeover": ["postgres"],
    "tenants": ["postgres"],
}
"""Name to databases on which it runs if nothing is said."""


@contextmanager
def build_environment(stack: str) -> Iterator[Mapping[str, str]]:
    """Yield the example project's settings for an empty database and broker, which are gone afterwards."""
    name = f"leased_cron_figures_{os.getpid()}"
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix=f"{name}_")))
        (folder / "data").mkdir()
        built = build_stack(stack, folder=folder, name=name, cleanup=cleanup, cuttable=False)
        yield {
            **os.environ,
            "EXAMPLE_BROKER_URL": built.broker.url,
            "EXAMPLE_DATABASE_URL": built.database.url,
            "EXAMPLE_DATA_DIR": str(folder / "data"),
            "EXAMPLE_LOG_LEVEL": "WARNING",
            "EXAMPLE_QUEUE": built.broker.queue,
        }


def run(benchmark: str, database: str, options: Sequence[str]) -> Iterator[Figure]:
    """Run one benchmark on one database, and yield its figures as they come."""
    tell(f"{benchmark} on {_STACKS[database]}")
    command = [sys.executable, "-m", f"benchmarks.{benchmark}", *options]
    with (
        build_environment(_STACKS[database]) as environment,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        for line in process.stdout:
            print(line, end="", flush=True)
            yield from read_figures(json.loads(line), benchmark=benchmark, database=database)
    if process.returncode:
        message = f"{benchmark} on {database} failed"
        raise RuntimeError(message)


def read_figures(line: Mapping[str, Any], *, benchmark: str, database: str) -> Iterator[Figure]:
    """Yield the figure of a line, or those of the storm, which prints all of its own in one."""
    if "measure" in line:
        yield Figure(**line)
        return
    jobs = line["jobs"]
    for name, value in line.items():
        if name != "jobs":
            measure = f"{benchmark}: {name.replace('_', ' ')}"
            yield Figure(measure=measure, database=_TITLES[database], jobs=jobs, value=value)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmarks", nargs="*", metavar="BENCHMARK", help=", ".join(_BENCHMARKS))
    parser.add_argument("--database", action="append", choices=_TITLES, help="May be given repeatedly.")
    options, own_options = parser.parse_known_args()
    unknown = [name for name in options.benchmarks if name not in _BENCHMARKS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(_BENCHMARKS)}")
    figures: list[Figure] = []
    failures = 0
    for benchmark in options.benchmarks or _BENCHMARKS:
        for database in options.database or _BENCHMARKS[benchmark]:
            try:
                figures += run(benchmark, database, own_options)
            except pytest.skip.Exception as exc:
                tell(f"left out: {exc}")
            except RuntimeError as exc:
                tell(f"{exc}; going on")
                failures += 1
    print(f"\n{build_table(figures)}\n\n(!) = more than the goal")
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
