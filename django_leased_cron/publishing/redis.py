"""Redis and Valkey, with or without Sentinel.

Errors are known by name: the client library need not be installed where the broker is another.
"""

from __future__ import annotations

from typing import Any

from kombu import Connection

from django_leased_cron.publishing.routes import NoRouteError, refuse_unroutable

_PROBE_KEY = "leased-cron-probe"  # nobody's: pushing onto a list that is not there writes nothing
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
        channel = refuse_unroutable(connection.channel())
        _keep_client(channel)
        return channel

    def ping(self, channel: Any) -> None:
        # On the pool that publishes: the one that kombu has just opened and pinged is the consumer's. By a write: a
        # server that is full, loading or a replica answers PING and takes no message.
        with channel.conn_or_acquire() as client:
            try:
                client.lpushx(f"{channel.global_keyprefix}{_PROBE_KEY}", "")
            except Exception as exc:
                if type(exc).__name__ != "NoPermissionError":
                    raise
                client.ping()

    def is_refusal(self, error: BaseException) -> bool:
        if type(error).__name__ == "ResponseError":
            return any(refusal in str(error) for refusal in _REFUSALS)
        return isinstance(error, NoRouteError)


def _keep_client(channel: Any) -> None:
    """Have a channel use one client for all its messages.

    kombu builds one for each, with its table of some 170 commands, which takes a sixth of the time of a message. What
    it makes them of, the connection pool, stays the channel's own.
    """
    create = getattr(channel, "_create_client", None)
    if create is None:
        return  # this kombu does it in another way
    client = create()

    def create_client(asynchronous: bool = False) -> Any:  # noqa: FBT001, FBT002 - kombu's own signature
        return create(asynchronous=True) if asynchronous else client

    channel._create_client = create_client
