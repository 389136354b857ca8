"""The example project, whose publishing hangs in one process for as long as a file names it."""

import os
import time
from pathlib import Path

from celery.signals import before_task_publish

from example_project.settings import *  # noqa: F403 - it is that project

FILE_VARIABLE = "HANGING_FILE"


def _hang(**_: object) -> None:
    file = Path(os.environ[FILE_VARIABLE])
    while _names_this_process(file):
        time.sleep(0.02)


def _names_this_process(file: Path) -> bool:
    try:
        return file.read_text() == str(os.getpid())
    except FileNotFoundError:
        return False


if FILE_VARIABLE in os.environ:  # not in a process of the tests, which imports this for the name alone
    before_task_publish.connect(_hang, weak=False)
