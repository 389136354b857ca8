"""The combinations of database and broker that the acceptance tests run on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.acceptance.brokers import Broker, FolderBroker, RabbitMQBroker, RedisBroker
from tests.acceptance.databases import Database, FileDatabase, PooledDatabase, ServerDatabase
from tests.servers import Server, require_server


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A database and a broker of one fleet's own."""

    database: Database
    broker: Broker


STACKS: Final = ("postgres-redis", "mariadb-rabbitmq", "sqlite-filesystem")
"""The usual ones: every database and every broker once. ``mariadb-redis`` is there too, and
``pgbouncer-redis`` for tests of what a pool of transactions changes."""

_SERVER_OF: Final = {"postgres": "postgres", "mariadb": "mysql"}


def build_stack(
    kind: str,
    *,
    folder: Path,
    name: str,
    cleanup: ExitStack,
    cuttable: bool,
    require_server: Callable[[str], Server] = require_server,
) -> Stack:
    """Build a database and a broker.

    Args:
        require_server: returns a server that is running.
        folder: for what is in files; ``folder / "data"`` is the fleet's ``EXAMPLE_DATA_DIR``.
        name: of the database and the queue.
        cleanup: gets what removes all of it again.
        cuttable: servers are reached through a line that can be cut.
    """
    database_kind, _, broker_kind = kind.partition("-")
    return Stack(
        database=_build_database(database_kind, require_server, folder, name, cleanup, cuttable=cuttable),
        broker=_build_broker(broker_kind, require_server, folder, name, cleanup, cuttable=cuttable),
    )


def _build_database(
    kind: str, require_server: Callable[[str], Server], folder: Path, name: str, cleanup: ExitStack, *, cuttable: bool
) -> Database:
    if kind == "sqlite":
        return FileDatabase(folder, name, cleanup)
    if kind == "pgbouncer":
        return PooledDatabase(require_server("postgres"), name, cleanup)
    return ServerDatabase(require_server(_SERVER_OF[kind]), name, cleanup, cuttable=cuttable)


def _build_broker(
    kind: str, require_server: Callable[[str], Server], folder: Path, name: str, cleanup: ExitStack, *, cuttable: bool
) -> Broker:
    match kind:
        case "redis":
            return RedisBroker(require_server(kind), name, cleanup, cuttable=cuttable)
        case "rabbitmq":
            return RabbitMQBroker(require_server(kind), name, cleanup, cuttable=cuttable)
        case _:
            return FolderBroker(folder / "data", name)
