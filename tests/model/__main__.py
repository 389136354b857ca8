"""The protocol's models, by spin: ``python -m tests.model``.

Prints a line for each variant and exits 1 if one does not come out as expected, 2 if spin or gcc is not there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from tests.model.checker import Verdict, check, read_counterexample
from tests.model.variants import FAILS, VARIANTS, Variant

_QUICK_MB, _QUICK_S = 3_000, 300.0
_LONG_MB, _LONG_S = 10_000, 1_800.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make model", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these variants, with their counterexamples")
    parser.add_argument("--long", action="store_true", help="the large ones: some minutes and up to 10 GB each")
    chosen = parser.parse_args(arguments)
    missing = [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]
    if missing:
        sys.stderr.write(f"{' and '.join(missing)} not found. On Debian: apt-get install spin gcc\n")
        return 2
    unknown = set(chosen.names) - {variant.name for variant in VARIANTS}
    if unknown:
        parser.error(f"no such variant: {', '.join(sorted(unknown))}")
    if chosen.names:
        variants = [variant for variant in VARIANTS if variant.name in chosen.names]
    else:
        variants = [variant for variant in VARIANTS if variant.is_long == chosen.long]
    return _check_all(variants, shows_trails=bool(chosen.names))


def _check_all(variants: Sequence[Variant], *, shows_trails: bool) -> int:
    started_at = perf_counter()
    _say(_row("variant", "model", "expected", "result", "states", "seconds"))
    wrong = 0
    states = 0
    # Large ones one after another: their memory is not to be had twice.
    workers = 1 if any(variant.is_long for variant in variants) else os.cpu_count()
    with TemporaryDirectory() as root, ThreadPoolExecutor(workers) as pool:
        for variant, verdict in zip(variants, pool.map(partial(_check_one, Path(root)), variants), strict=True):
            is_wrong = verdict.result != variant.expected
            wrong += is_wrong
            states += verdict.states
            _say(_describe(variant, verdict) + ("  <-- not as expected" if is_wrong else ""))
            if verdict.result == FAILS and (shows_trails or is_wrong):
                for line in read_counterexample(variant, folder=Path(root, variant.name)):
                    _say(f"    {line}")
    broken = sum(variant.expected == FAILS for variant in variants)
    _say(f"{broken} broken on purpose, {len(variants) - broken} to hold; not as expected: {wrong}")
    _say(f"{states:,} states in {perf_counter() - started_at:.0f} s")
    return 1 if wrong else 0


def _check_one(root: Path, variant: Variant) -> Verdict:
    folder = root / variant.name
    folder.mkdir()
    memory_mb, limit_s = (_LONG_MB, _LONG_S) if variant.is_long else (_QUICK_MB, _QUICK_S)
    return check(variant, folder=folder, memory_mb=memory_mb, limit_s=limit_s)


def _describe(variant: Variant, verdict: Verdict) -> str:
    return _row(
        variant.name,
        variant.model,
        variant.expected,
        verdict.result,
        f"{verdict.states:,}",
        f"{verdict.seconds:.1f}",
    )


def _row(name: str, model: str, expected: str, result: str, states: str, seconds: str) -> str:
    return f"{name:28} {model:9} {expected:9} {result:10} {states:>12} {seconds:>8}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
