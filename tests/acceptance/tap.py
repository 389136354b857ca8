"""Between the schedulers and the workers: reads every message as it arrives, notes it, and passes it on."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from amqp import AMQPError
from celery import Celery
from kombu.exceptions import KombuError
from redis import RedisError

from tests.acceptance.brokers import Broker, worker_queue
from tests.acceptance.waiting import now_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message as the broker delivered it."""

    task_id: str
    attempt: int
    due_at_ms: int
    arrived_at_ms: int

    @property
    def lateness_ms(self) -> int:
        return self.arrived_at_ms - self.due_at_ms


class Tap:
    """Drains the queue that schedulers publish to, in a thread of its own.

    Use as a context manager. With ``passing_on`` every message goes on, unchanged, to the workers' queue.
    """

    def __init__(self, broker: Broker, *, passing_on: bool) -> None:
        self._queue = broker.queue
        self._passing_on = passing_on
        self._app = Celery("tap", set_as_current=False)
        self._app.conf.update(broker.direct_settings, task_default_queue=broker.queue)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.messages: list[Message] = []  # only ever appended to, so it may be looped over meanwhile

    def __enter__(self) -> Tap:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            # The broker may be what the test takes away.
            with contextlib.suppress(OSError, AMQPError, KombuError, RedisError):
                self._drain()
            self._stopping.wait(0.05)

    def _drain(self) -> None:
        with self._app.connection_for_read() as connection, self._app.connection_for_write() as onward:
            producer = self._app.amqp.Producer(onward.channel(), auto_declare=False)

            def take(message: Any) -> None:
                self.messages.append(_describe(message))
                if self._passing_on:
                    self._pass_on(message, producer)

            queue = self._app.amqp.queues[self._queue]
            with connection.Consumer([queue], on_message=take, no_ack=True):
                while not self._stopping.is_set():
                    with contextlib.suppress(TimeoutError):
                        connection.drain_events(timeout=0.1)

    def _pass_on(self, message: Any, producer: Any) -> None:
        producer.publish(
            message.body,
            exchange="",
            routing_key=worker_queue(self._queue),
            content_type=message.content_type,
            content_encoding=message.content_encoding,
            headers=message.headers,
            correlation_id=message.properties.get("correlation_id"),
            reply_to=message.properties.get("reply_to"),
        )


def _describe(message: Any) -> Message:
    occurrence = message.headers["leased_cron"]
    due_at = datetime.fromisoformat(occurrence["due_at"])
    return Message(
        task_id=message.headers["id"],
        attempt=occurrence["attempt"],
        due_at_ms=round(due_at.timestamp() * 1000),
        arrived_at_ms=now_ms(),
    )
