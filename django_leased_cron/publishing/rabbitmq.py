"""RabbitMQ, and what else speaks AMQP 0-9-1, with publisher confirms."""

from __future__ import annotations

import contextlib
from typing import Any
from uuid import uuid4

from amqp import Message
from amqp.exceptions import ChannelError, FrameSyntaxError, MessageNacked, NotFound
from kombu import Connection


class RabbitMQBroker:
    def connection_options(self, *, bound_s: float) -> dict[str, Any]:
        return {
            "transport_options": {
                "confirm_publish": True,
                "connect_timeout": 0.2 * bound_s,
                "read_timeout": _longest_wait_s(bound_s),
                "write_timeout": _longest_wait_s(bound_s),
            },
        }

    def open_channel(self, connection: Connection, *, bound_s: float) -> Any:
        # The library's read timeout ends a wait only between two frames: a server that falls silent within one
        # would be waited for without end.
        established: Any = connection.connection
        established.sock.settimeout(_longest_wait_s(bound_s))
        return connection.channel()

    def ping(self, channel: Any) -> None:
        # By a publication that leads nowhere: a broker short of memory or disk answers everything else, and this too,
        # but nothing after it. Past the channel's ``basic_publish``, where a gate may stand.
        with contextlib.suppress(ChannelError):  # no permission to publish there, which is an answer
            channel.basic_publish_confirm(Message(), routing_key=f"leased-cron-probe-{uuid4()}")
        channel.confirm_select()

    def is_refusal(self, error: BaseException) -> bool:
        if isinstance(error, NotFound):
            # The same code says that the node of a durable queue is down: an outage, not a refusal.
            return "no exchange" in str(error)
        return isinstance(error, ChannelError | MessageNacked | FrameSyntaxError)


def _longest_wait_s(bound_s: float) -> float:
    """Return the limit of one wait: a publication is written, and is confirmed."""
    return 0.45 * bound_s
