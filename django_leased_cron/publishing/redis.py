"""Redis and Valkey, with or without Sentinel."""

from __future__ import annotations

from typing import Any

from kombu import Connection

from django_leased_cron.publishing.routes import NoRouteError, refuse_unroutable

_REFUSALS = ("WRONGTYPE", "Protocol error: invalid bulk length")


class RedisBroker:
    def connection_options(self, *, bound_s: float) -> dict[str, Any]:
        # At worst one publication connects anew (the pool found its connection closed), shakes hands, writes, and
        # waits for the reply: 0.2 + 3 * 0.25.
        return {
            "transport_options": {
                "socket_connect_timeout": 0.2 * bound_s,
                "socket_timeout": 0.25 * bound_s,
                "retry_on_timeout": False,
                "health_check_interval": 0,  # would put one more round trip between the deadline and the write
            }
        }

    def open_channel(self, connection: Connection, *, bound_s: float) -> Any:
        return refuse_unroutable(connection.channel())

    def ping(self, channel: Any) -> None:
        # On the pool that publishes: the one that kombu has just opened and pinged is the consumer's.
        with channel.conn_or_acquire() as client:
            client.ping()

    def is_refusal(self, error: BaseException) -> bool:
        # By its text, because the library need not be there: this module is imported whatever the broker.
        return isinstance(error, NoRouteError) or str(error).startswith(_REFUSALS)
