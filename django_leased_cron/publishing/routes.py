"""Messages that lead nowhere, on the transports that kombu emulates.

Where RabbitMQ answers "no exchange", they drop the message and say nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any


class NoRouteError(Exception):
    """No queue would get this message."""

    def __init__(self, exchange: str, routing_key: str) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        super().__init__(f"no queue is bound to exchange {exchange!r} with routing key {routing_key!r}")


def refuse_unroutable(channel: Any) -> Any:
    """Make a publisher's channel raise :class:`NoRouteError`; returns the channel.

    Fanout exchanges are left alone: nobody listening is normal there. So is a channel with no routing of its own.
    """
    lookup = getattr(channel, "_lookup", None)
    if lookup is None:
        return channel

    def lookup_or_refuse(exchange: str, routing_key: str, default: str | None = None) -> Collection[str]:
        queues: Collection[str] = lookup(exchange, routing_key, default)
        if not queues:
            raise NoRouteError(exchange, routing_key)
        return queues

    channel._lookup = lookup_or_refuse
    return channel
