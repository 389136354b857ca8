"""A Celery app, a publisher for it, and messages to publish."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from celery import Celery
from kombu import Queue

from django_leased_cron.core.clock import BootTime, later
from django_leased_cron.core.publication import Publication, Publisher, PublishResult
from django_leased_cron.publishing import build_publisher

PUBLISH_TIMEOUT_S = 5.0


class ManualClock:
    def __init__(self) -> None:
        self.now = BootTime(1000.0)

    def boot_time(self) -> BootTime:
        return self.now


@dataclass(slots=True, kw_only=True)
class Bench:
    """A Celery app on a queue of its own, and a publisher for it."""

    app: Celery
    clock: ManualClock = field(default_factory=ManualClock)
    publisher: Publisher = field(init=False)

    def __post_init__(self) -> None:
        self.publisher = build_publisher(self.app, self.clock, PUBLISH_TIMEOUT_S)

    @property
    def queue(self) -> str:
        return str(self.app.conf.task_default_queue)

    def publish(self, *publications: Publication) -> list[PublishResult]:
        return list(self.publisher.publish(publications, start_deadline=later(self.clock.now, PUBLISH_TIMEOUT_S / 2)))

    def receive(self, queue: str | None = None) -> list[Any]:
        """Take all messages that are there."""
        with self.app.connection_for_read() as connection:
            bound = Queue(queue or self.queue)(connection.default_channel)
            try:
                return list(iter(lambda: bound.get(no_ack=True), None))
            except connection.channel_errors:  # nobody has declared it yet
                return []


class WayOut:
    """How a test takes a broker away and gives it back."""

    def __init__(self, remove: Callable[[], None], restore: Callable[[], None]) -> None:
        self.remove = remove
        self.restore = restore


def build_app(broker_url: str, **settings: Any) -> Celery:
    app = Celery(f"bench-{uuid4().hex}", broker=broker_url, set_as_current=False)
    app.conf.update(task_default_queue=f"leased-cron-test-{uuid4().hex}", **settings)

    @app.task(name="add", shared=False)
    def add(x: int, y: int) -> int:
        return x + y

    @app.task(name="quiet", shared=False, ignore_result=True)
    def quiet() -> None: ...

    return app


def do_nothing(*_: Any) -> None: ...


def publication(task: str = "add", **changes: Any) -> Publication:
    values: dict[str, Any] = {"occurrence_id": 1, "attempt": 1, "task_id": str(uuid4()), "args": [1, 2]}
    return Publication(**{**values, "task": task, **changes})


def kinds(results: list[PublishResult]) -> list[type[PublishResult]]:
    return [type(result) for result in results]


def task_ids(messages: list[Any]) -> list[str]:
    return [message.headers["id"] for message in messages]
