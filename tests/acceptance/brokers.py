"""Brokers of a fleet's own: a Redis database, names on RabbitMQ, or a folder."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from kombu import Connection
from redis import Redis

from django_leased_cron.publishing import filesystem
from tests.acceptance.lines import FolderLine, Line, lay_line
from tests.servers import Server

_REDIS_OWNER_KEY = "leased_cron_fleet"
_REDIS_DATABASES = range(15, 0, -1)
_LONGEST_TEST_S = 3600


class Broker(Protocol):
    """A broker without messages, whose traces the cleanup removes.

    Attributes:
        queue: to which the fleet's schedulers publish.
        url: as the fleet's processes get it.
        line: between the processes and the broker.
        made_by_settings: the project's settings make what is not there, so it cannot be away at start.
        direct_settings: how a Celery app of the test's own reaches it, whatever the fleet's processes can reach.
    """

    queue: str
    url: str
    line: Line
    made_by_settings: bool
    direct_settings: dict[str, Any]


class RedisBroker:
    """One of the server's numbered databases, reserved as long as the fleet exists."""

    made_by_settings = False

    def __init__(self, server: Server, name: str, cleanup: ExitStack, *, cuttable: bool) -> None:
        self.queue = name
        direct_url = server.url if server.is_own else _reserve_redis_database(server.url, name, cleanup)
        self.direct_settings = {"broker_url": direct_url}
        self.line, self.url = lay_line(server, direct_url, cleanup, cuttable=cuttable)


class RabbitMQBroker:
    """Queues with names of their own."""

    made_by_settings = False

    def __init__(self, server: Server, name: str, cleanup: ExitStack, *, cuttable: bool) -> None:
        self.queue = name
        self.direct_settings = {"broker_url": server.url}
        self.line, self.url = lay_line(server, server.url, cleanup, cuttable=cuttable)
        cleanup.callback(self._delete_queues)

    def _delete_queues(self) -> None:
        with Connection(self.direct_settings["broker_url"]) as connection:
            channel: Any = connection.channel()
            for name in (self.queue, worker_queue(self.queue)):
                channel.queue_delete(name)
                channel.exchange_delete(name)


class FolderBroker:
    """A folder, and the link to it that the fleet's processes know."""

    made_by_settings = True

    def __init__(self, data_folder: Path, name: str) -> None:
        self.queue = name
        self.url = "filesystem://"
        folder, link = data_folder / "all-messages", data_folder / "messages"
        folder.mkdir()
        link.symlink_to(folder, target_is_directory=True)
        self.line: Line = FolderLine(link)
        self.direct_settings = {
            "broker_url": self.url,
            "broker_transport": f"{filesystem.__name__}:{filesystem.Transport.__qualname__}",
            "broker_transport_options": {
                "data_folder_in": str(folder),
                "data_folder_out": str(folder),
                "control_folder": str(data_folder / "control"),
                "polling_interval": 0.005,
            },
        }


def worker_queue(queue: str) -> str:
    """Return the queue from which the fleet's workers read what was published to ``queue``."""
    return f"{queue}_worker"


def _reserve_redis_database(url: str, name: str, cleanup: ExitStack) -> str:
    """Return the URL of a database that was empty and is this fleet's now; the cleanup empties it again."""
    for number in _REDIS_DATABASES:
        candidate = urlunsplit(urlsplit(url)._replace(path=f"/{number}"))
        redis = Redis.from_url(candidate)
        if redis.set(_REDIS_OWNER_KEY, name, nx=True, ex=_LONGEST_TEST_S):
            if redis.dbsize() == 1:
                cleanup.callback(redis.close)
                cleanup.callback(redis.flushdb)
                return candidate
            redis.delete(_REDIS_OWNER_KEY)  # of somebody who reserves nothing
        redis.close()
    message = f"no database of {url!r} with a number from 1 to 15 is empty"
    raise AssertionError(message)
