"""What the jobs run."""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Task, shared_task

from django_leased_cron.core.occurrence import format_instant


@shared_task(bind=True)
def record(self: Task[Any, Any]) -> None:
    """Append ``task_id attempt due_at pid started_at`` to the file that ``EXAMPLE_RECORD_FILE`` names.

    A task id that stands there twice is an occurrence that ran twice. ``-`` where nobody scheduled the task.
    """
    started_at = format_instant(round(time.time() * 1000))
    occurrence = self.request.get("leased_cron") or {}
    words = (self.request.id, occurrence.get("attempt", "-"), occurrence.get("due_at", "-"), os.getpid(), started_at)
    line = " ".join(map(str, words)) + "\n"
    # One write to a file opened for appending: lines of several workers never mix.
    descriptor = os.open(os.environ["EXAMPLE_RECORD_FILE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


@shared_task
def noop(*args: object) -> None:
    """Do nothing."""
