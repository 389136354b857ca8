"""The port behind which the families of brokers differ."""

from __future__ import annotations

from typing import Any, Protocol

from kombu import Connection


class Broker(Protocol):
    """How one family of brokers is connected to, probed and understood.

    ``bound_s``, here and below: a publication that has begun must have ended, one way or the other, in less than
    this (rule P1). Each family divides it among the waits that one publication may consist of.
    """

    def connection_options(self, *, bound_s: float) -> dict[str, Any]:
        """Return the arguments to ``app.connection_for_write()`` that bound its waits and turn retries off.

        Transport options that are not in it stay as the project set them.
        """
        ...

    def open_channel(self, connection: Connection, *, bound_s: float) -> Any:
        """Return a channel on an established connection."""
        ...

    def ping(self, channel: Any) -> None:
        """Make a round trip on the channel that fails where a publication would; raises what the client raises."""
        ...

    def is_refusal(self, error: BaseException) -> bool:
        """Return whether the broker has refused this one message for good, and would take others."""
        ...
