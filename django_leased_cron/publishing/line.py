"""A line to the broker: one connection and one channel, opened when first needed and dropped when in doubt."""

from __future__ import annotations

import contextlib
from typing import Any

from celery import Celery
from kombu import Connection
from kombu.exceptions import OperationalError

from django_leased_cron.publishing.broker import Broker


class BrokerLine:
    """A connection of our own, outside the app's pool, whose every wait is bounded.

    Attributes:
        channel: the open channel, or ``None``.
    """

    def __init__(self, app: Celery, broker: Broker, *, bound_s: float) -> None:
        self._app = app
        self._broker = broker
        self._bound_s = bound_s
        self._connection: Connection | None = None
        self.channel: Any = None

    def open(self) -> Any:
        """Return a channel that has just answered; one that died unnoticed is replaced.

        Raises:
            Exception: there is no connection to be had; the line is down.
        """
        if self.channel is not None and self.is_answering():
            return self.channel
        try:
            connection = self._connection or self._connect()
            channel = self._broker.open_channel(connection, bound_s=self._bound_s)
            self._broker.ping(channel)
        except Exception:
            self.drop()
            raise
        self.channel = channel
        return channel

    def is_answering(self) -> bool:
        """Return whether the open channel answers; if not, the line is dropped."""
        try:
            self._broker.ping(self.channel)
        except Exception:  # noqa: BLE001 - the client libraries have no common root
            self.drop()
            return False
        return True

    def failures(self) -> tuple[type[BaseException], ...]:
        """Return what the client raises when the connection or the broker is at fault."""
        # kombu counts KeyError among Redis's connection errors; here it would hide faults of a message.
        kinds = (*self._connection.connection_errors, *self._connection.channel_errors) if self._connection else ()
        return (OSError, OperationalError, *(kind for kind in kinds if not issubclass(kind, LookupError)))

    def renew_channel(self) -> None:
        """Give up the channel, which a refusal may have closed, and keep the connection."""
        channel, self.channel = self.channel, None
        if self._connection is not None:
            with contextlib.suppress(Exception):  # it is being given up
                self._connection.maybe_close_channel(channel)

    def drop(self) -> None:
        """Give up the connection without a word to the broker; never raises."""
        connection, self._connection, self.channel = self._connection, None, None
        if connection is not None:
            with contextlib.suppress(Exception):  # it is being given up
                connection.collect()

    def close(self) -> None:
        """Take leave of the broker; never raises."""
        connection, self._connection, self.channel = self._connection, None, None
        if connection is not None:
            with contextlib.suppress(Exception):  # it is being given up
                connection.release()

    def _connect(self) -> Connection:
        connection = self._app.connection_for_write(**self._broker.connection_options(bound_s=self._bound_s))
        # Each of the URLs once, and no pause between them: who calls decides when to try again.
        connection.ensure_connection(max_retries=max(len(connection.alt) - 1, 0), interval_start=0, interval_step=0)
        self._connection = connection
        return connection
