"""Runs spin, and what it generates, on one variant of a model."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Final

from tests.model.variants import FAILS, HOLDS, Variant

MODELS: Final = Path(__file__).resolve().parents[2] / "docs/explanation/model"
UNFINISHED: Final = "unfinished"
_SOURCE: Final = "model.pml"
_ALWAYS: Final = ("-w", "-DSAFETY", "-DNOREDUCE", "-DNOFAIR", "-DCOLLAPSE")
_CUT_SHORT: Final = re.compile(r"out of memory|reached -DMEMLIM|max search depth too small")
_ASSERTION: Final = "spin: text of failed assertion: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    result: str
    """``holds``, ``fails`` or ``unfinished``."""
    states: int
    seconds: float


def check(variant: Variant, *, folder: Path, memory_mb: int, limit_s: float) -> Verdict:
    """Build and run one variant in an empty folder.

    Raises:
        subprocess.CalledProcessError: spin or the compiler does not take it.
    """
    started_at = perf_counter()
    (folder / _SOURCE).write_text((MODELS / f"{variant.model}.pml").read_text())
    _run(["spin", *_options(variant), "-a", _SOURCE], folder)
    # Breadth first finds the shortest counterexample; depth first needs less memory. Compiling with care takes longer
    # than a small search does.
    order = ["-O2"] if variant.is_long else ["-O0", "-DBFS"]
    _run(["gcc", "-o", "pan", "pan.c", *_ALWAYS, *order, f"-DMEMLIM={memory_mb}"], folder)
    try:
        report = _run(["./pan", "-E", "-m1000000", "-w24" if variant.is_long else "-w20"], folder, limit_s=limit_s)
    except subprocess.TimeoutExpired:
        report = ""
    states = float(_find(r"([\d.e+]+) states, stored", report) or 0)
    return Verdict(result=_read_result(report), states=int(states), seconds=perf_counter() - started_at)


def read_counterexample(variant: Variant, *, folder: Path) -> list[str]:
    """Return, after a check that failed, what happened on the way there, one act a line."""
    output = _run(["spin", *_options(variant), "-t", "-T", _SOURCE], folder, must_succeed=False)
    acts, _, rest = output.partition(_ASSERTION)
    lines = [line for line in acts.splitlines() if not line.startswith("spin: ")]
    return [*lines, *rest.splitlines()[:1]]


def _options(variant: Variant) -> Sequence[str]:
    return [f"-D{option}" for option in variant.options.split()]


def _read_result(report: str) -> str:
    errors = _find(r"errors: (\d+)", report)
    if not errors or _CUT_SHORT.search(report):
        return UNFINISHED
    return FAILS if int(errors) else HOLDS


def _find(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else ""


def _run(command: Sequence[str], folder: Path, *, limit_s: float | None = None, must_succeed: bool = True) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=must_succeed, timeout=limit_s)
    return done.stdout
