"""The lease store on PostgreSQL, which can tell processes to look: NOTIFY in the acts, LISTEN in the wait."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Collection
from contextlib import suppress
from typing import Any, Final

from django_leased_cron.database.dialect import Dialect
from django_leased_cron.database.session import Session
from django_leased_cron.exceptions import StoreError
from django_leased_cron.lease_store.store import SqlLeaseStore

CHANNEL: Final = "leased_cron"
"""What is announced here says only: look. A release is, a hand-over or a request for one, an edit; never a dispatch."""
_WAKES_AT_ONCE: Final = 1 << 16


class PostgresLeaseStore(SqlLeaseStore):
    """Announces in the transaction that gives reason to, so nobody looks before there is something to see."""

    def _announce(self, session: Session) -> None:
        session.execute(f"NOTIFY {CHANNEL}")


class PostgresListener:
    """A wait that an announcement ends, or another thread.

    A lost connection ends one wait, since what was announced meanwhile is lost too; then waits last their full time
    until the database answers again.

    Through a proxy that pools connections nothing is heard, and LISTEN would stay behind on a connection that others
    use: pgbouncer writes a warning for each announcement that arrives there. So it is not sent, and the poll remains.

    Attributes:
        problem: why announcements are not heard at the moment.
    """

    def __init__(self, alias: str, dialect: Dialect) -> None:
        self.problem: StoreError | None = None
        self._session = Session(alias, dialect)
        self._is_listening = False
        self._is_pooled = False
        self._woken, self._waker = socket.socketpair()
        self._waker.settimeout(0)

    def wait(self, timeout_s: float) -> bool:
        was_listening = self._is_listening
        try:
            if self._is_pooled:
                return bool(self._select(timeout_s))
            if not was_listening:
                self._listen()
                return True  # what was announced before is lost
            return self._wait_listening(timeout_s)
        except StoreError as exc:
            self._is_listening, self.problem = False, exc
            return was_listening or bool(self._select(timeout_s))

    def wake(self) -> None:
        with suppress(OSError):  # full: the wait ends anyway; closed: nobody waits
            self._waker.send(b"\0")

    def close(self) -> None:
        self._session.close()
        self._is_listening = False
        self._woken.close()
        self._waker.close()

    def _listen(self) -> None:
        with self._session.transaction() as session:
            ((server_pid,),) = session.fetch("SELECT pg_backend_pid()")
            with session.driver_connection() as connection:
                # What a server says of itself when it is connected to; a proxy that pools says something of its own.
                self._is_pooled = connection.info.backend_pid != server_pid
            if not self._is_pooled:
                session.execute(f"LISTEN {CHANNEL}")
        self._is_listening, self.problem = not self._is_pooled, None
        if self._is_pooled:
            self._session.close()

    def _wait_listening(self, timeout_s: float) -> bool:
        with self._session.driver_connection() as connection:
            ready = self._select(timeout_s, connection.fileno())
            if connection.fileno() in ready:
                _drain(connection.pgconn)
        return bool(ready)

    def _select(self, timeout_s: float, *more: int) -> Collection[int]:
        with selectors.DefaultSelector() as selector:
            for source in (self._woken.fileno(), *more):
                selector.register(source, selectors.EVENT_READ)
            ready = {key.fd for key, _ in selector.select(timeout_s)}
        if self._woken.fileno() in ready:
            self._woken.recv(_WAKES_AT_ONCE)
        return ready


def _drain(pgconn: Any) -> None:
    """Take what has arrived. Whatever it is, an announcement or the server's farewell, is a reason to look."""
    pgconn.consume_input()
    while pgconn.notifies() is not None:
        pass
