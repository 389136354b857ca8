"""A project's Celery app, for workers that ``test_worker_guard.py`` starts.

Each run appends a line of JSON to the file ``GUARDED_JOURNAL``.
"""

from __future__ import annotations

import json
import os
from typing import Any

import django
from celery import Celery, Task, shared_task
from celery.exceptions import Ignore, Reject
from celery.signals import celeryd_after_setup

from django_leased_cron import current_occurrence

django.setup()

app = Celery("guarded", broker=os.environ["GUARDED_BROKER_URL"])
app.conf.update(
    broker_transport_options={"global_keyprefix": os.environ["GUARDED_PREFIX"]},
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)


def write_down(task: str, task_id: str | None = None) -> None:
    occurrence = current_occurrence()
    line = {
        "task": task,
        "attempt": None if occurrence is None else occurrence.attempt,
        "due_at": None if occurrence is None else occurrence.due_at.isoformat(),
    }
    with open(os.environ["GUARDED_JOURNAL"], "a") as journal:
        journal.write(f"{json.dumps(line)}\n")


class Calling(Task[Any, Any]):
    """A base class as projects have them."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs)


@app.task(name="succeed")
def succeed() -> None:
    write_down("succeed")


@shared_task(name="shared")
def shared() -> None:
    write_down("shared")


@app.task(name="fail")
def fail() -> None:
    write_down("fail")
    message = "it did \x00 not work"
    raise ValueError(message)


@app.task(name="retry", bind=True)
def retry(self: Task[Any, Any]) -> None:
    write_down("retry")
    if self.request.retries < 2:
        raise self.retry(countdown=0)


@app.task(name="autoretry", autoretry_for=(ValueError,), max_retries=1, default_retry_delay=0)
def autoretry() -> None:
    write_down("autoretry")
    message = "each time"
    raise ValueError(message)


@app.task(name="calling", base=Calling)
def calling() -> None:
    write_down("calling")


@app.task(name="nesting")
def nesting() -> None:
    succeed()
    write_down("nesting")


@app.task(name="ignore")
def ignore() -> None:
    write_down("ignore")
    raise Ignore


@app.task(name="reject")
def reject() -> None:
    write_down("reject")
    raise Reject


@celeryd_after_setup.connect
def register_late(**_: Any) -> None:
    @app.task(name="late", shared=False)
    def late() -> None:
        write_down("late")
