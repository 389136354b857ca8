"""Prepare a fresh folder and the settings that point to it, then tell the story."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

import django
from django.core.management import call_command

TERMINATED = 128 + signal.SIGTERM
INTERRUPTED = 128 + signal.SIGINT


def main() -> int:
    started_at = time.monotonic()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminate)
    try:
        with tempfile.TemporaryDirectory(prefix="leased-cron-demo-") as folder:
            exit_code = run_in(Path(folder), started_at=started_at)
    except KeyboardInterrupt:
        print("Interrupted. Every process is ended, the folder is removed.")
        return INTERRUPTED
    seconds = time.monotonic() - started_at
    print(f"{seconds:.0f} s in all. Every process is ended, the folder is removed. Exit code {exit_code}.")
    return exit_code


def run_in(folder: Path, *, started_at: float) -> int:
    for name in [name for name in os.environ if name.startswith("EXAMPLE_")]:
        del os.environ[name]
    # Read by the settings here, and inherited by every process of the demo.
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "example_project.settings",
        "EXAMPLE_DATA_DIR": str(folder),
        "EXAMPLE_RECORD_FILE": str(folder / "runs"),
    }
    django.setup()
    from example_project.demo.story import tell_story  # noqa: PLC0415 - the models can be imported only now

    call_command("migrate", verbosity=0)
    return tell_story(folder, started_at=started_at)


def _terminate(number: int, frame: FrameType | None) -> None:
    sys.exit(TERMINATED)


if __name__ == "__main__":
    sys.exit(main())
