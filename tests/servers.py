"""The servers that tests talk to, where they are, and what happens where one does not answer."""

from __future__ import annotations

import functools
import os
import socket
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final, NoReturn
from urllib.parse import urlsplit

import pytest


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server: its URL comes from the environment variable, else it is the usual place on this machine."""

    title: str
    variable: str
    default_url: str
    driver: str
    """The module without which nobody here can talk to it."""
    is_own: bool = False
    """A test has started it for itself: what is on it goes with it."""

    @property
    def url(self) -> str:
        return os.environ.get(self.variable, self.default_url)

    @property
    def address(self) -> tuple[str, int]:
        parts, usual = urlsplit(self.url), urlsplit(self.default_url)
        return parts.hostname or "127.0.0.1", parts.port or usual.port or 0

    @functools.cache  # noqa: B019 - the servers are constants: nothing is kept alive that would not live anyway
    def find_obstacle(self) -> str | None:
        """Return why the server cannot be used, or nothing if it can; asked once per run."""
        if find_spec(self.driver) is None:
            return f"the module {self.driver} is not installed"
        host, port = self.address
        try:
            socket.create_connection((host, port), timeout=1).close()
        except OSError as exc:
            return f"{host}:{port} does not answer ({exc}); set {self.variable} if it is elsewhere"
        return None


SERVERS: Final = {
    "postgres": Server(
        title="PostgreSQL",
        variable="LEASED_CRON_TEST_POSTGRES_URL",
        default_url="postgres://postgres@127.0.0.1:5432",
        driver="psycopg",
    ),
    "mysql": Server(
        title="MariaDB or MySQL",
        variable="LEASED_CRON_TEST_MYSQL_URL",
        default_url="mysql://root@127.0.0.1:3306",
        driver="MySQLdb",
    ),
    "redis": Server(
        title="Redis",
        variable="LEASED_CRON_TEST_REDIS_URL",
        default_url="redis://127.0.0.1:6379/0",
        driver="redis",
    ),
    "rabbitmq": Server(
        title="RabbitMQ",
        variable="LEASED_CRON_TEST_RABBITMQ_URL",
        default_url="amqp://guest:guest@127.0.0.1:5672//",
        driver="amqp",
    ),
}


def require_server(name: str) -> Server:
    """Return the server, or skip the test that needs it; with ``CI=true`` a missing server is a failure."""
    server = SERVERS[name]
    obstacle = server.find_obstacle()
    if obstacle is None:
        return server
    report_missing(f"{server.title}: {obstacle}")


def report_missing(message: str) -> NoReturn:
    """Skip the test for what is not on this machine; with ``CI=true`` that is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


def describe_servers() -> list[str]:
    """Return one line for each server: whether it was found, and where."""
    lines = []
    for server in SERVERS.values():
        host, port = server.address
        lines.append(f"{server.title}: {server.find_obstacle() or f'{host}:{port}'}")
    return lines
