"""Every other transport of kombu, as it comes: its waits are its own, and an open connection counts as an answer."""

from __future__ import annotations

from typing import Any

from kombu import Connection

from django_leased_cron.publishing.routes import NoRouteError, refuse_unroutable


class PlainBroker:
    def connection_options(self, *, bound_s: float) -> dict[str, Any]:
        return {"connect_timeout": 0.2 * bound_s}

    def open_channel(self, connection: Connection, *, bound_s: float) -> Any:
        return refuse_unroutable(connection.channel())

    def ping(self, channel: Any) -> None:
        """Do nothing: there is no round trip that every transport has."""

    def is_refusal(self, error: BaseException) -> bool:
        return isinstance(error, NoRouteError)
