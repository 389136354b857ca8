"""Brokers of a fleet's own: a Redis database, names on RabbitMQ, or a folder; each can be taken away."""

from __future__ import annotations

import contextlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from celery import Celery
from kombu import Connection
from redis import Redis

from django_leased_cron.publishing import filesystem
from tests.acceptance.databases import through
from tests.contract.tcp_proxy import TcpProxy
from tests.servers import Server

_REDIS_OWNER_KEY = "leased_cron_fleet"
_REDIS_DATABASES = range(15, 0, -1)
_LONGEST_TEST_S = 3600


class Broker(Protocol):
    """A broker without messages, whose traces the cleanup removes.

    Attributes:
        url: as the fleet's processes get it.
        queue: to which they publish.
    """

    url: str
    queue: str

    def configure(self, app: Celery) -> None:
        """Let a Celery app of the test's own reach it, whatever the fleet's processes can reach."""
        ...

    def take_away(self) -> None:
        """Be as a broker that is down."""
        ...

    def give_back(self) -> None: ...


class RedisBroker:
    """One of the server's numbered databases, reserved as long as the fleet exists."""

    def __init__(self, server: Server, name: str, cleanup: ExitStack, *, cuttable: bool) -> None:
        self.queue = name
        self._direct_url = self._reserve(server.url, name, cleanup)
        self._proxy = cleanup.enter_context(TcpProxy(server.address)) if cuttable else None
        self.url = through(self._proxy, self._direct_url)

    def configure(self, app: Celery) -> None:
        app.conf.broker_url = self._direct_url

    def take_away(self) -> None:
        assert self._proxy is not None
        self._proxy.refuse()

    def give_back(self) -> None:
        assert self._proxy is not None
        self._proxy.restore()

    def silence(self) -> None:
        """Answer nothing any more, with all connections open."""
        assert self._proxy is not None
        self._proxy.silence()

    def _reserve(self, url: str, name: str, cleanup: ExitStack) -> str:
        for number in _REDIS_DATABASES:
            candidate = urlunsplit(urlsplit(url)._replace(path=f"/{number}"))
            redis = Redis.from_url(candidate)
            if redis.set(_REDIS_OWNER_KEY, name, nx=True, ex=_LONGEST_TEST_S) and redis.dbsize() == 1:
                cleanup.callback(redis.close)
                cleanup.callback(redis.flushdb)
                return candidate
            if redis.get(_REDIS_OWNER_KEY) == name.encode():  # the database of somebody who reserves nothing
                redis.delete(_REDIS_OWNER_KEY)
            redis.close()
        message = f"no database of {url!r} with a number from 1 to 15 is empty"
        raise AssertionError(message)


class RabbitMQBroker:
    """Queues with names of their own."""

    def __init__(self, server: Server, name: str, cleanup: ExitStack, *, cuttable: bool) -> None:
        self.queue = name
        self._direct_url = server.url
        self._proxy = cleanup.enter_context(TcpProxy(server.address)) if cuttable else None
        self.url = through(self._proxy, self._direct_url)
        cleanup.callback(self._delete_queues)

    def configure(self, app: Celery) -> None:
        app.conf.broker_url = self._direct_url

    def take_away(self) -> None:
        assert self._proxy is not None
        self._proxy.refuse()

    def give_back(self) -> None:
        assert self._proxy is not None
        self._proxy.restore()

    def _delete_queues(self) -> None:
        with Connection(self._direct_url) as connection:
            channel: Any = connection.channel()
            for name in (self.queue, worker_queue(self.queue)):
                channel.queue_delete(name)
                channel.exchange_delete(name)


class FolderBroker:
    """A folder; away while the link to it is gone."""

    def __init__(self, data_folder: Path, name: str) -> None:
        self.queue = name
        self.url = "filesystem://"
        self._folder = data_folder / "all-messages"
        self._folder.mkdir()
        self._control_folder = data_folder / "control"
        self._link = data_folder / "messages"
        self.give_back()

    def configure(self, app: Celery) -> None:
        app.conf.update(
            broker_url=self.url,
            broker_transport=f"{filesystem.__name__}:{filesystem.Transport.__qualname__}",
            broker_transport_options={
                "data_folder_in": str(self._folder),
                "data_folder_out": str(self._folder),
                "control_folder": str(self._control_folder),
                "polling_interval": 0.005,
            },
        )

    def take_away(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._link.unlink()

    def give_back(self) -> None:
        self._link.symlink_to(self._folder, target_is_directory=True)


def worker_queue(queue: str) -> str:
    """Return the queue from which the fleet's workers read what was published to ``queue``."""
    return f"{queue}_worker"
