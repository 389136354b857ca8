"""The combinations of database and broker that the acceptance tests run on."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.acceptance.brokers import Broker, FolderBroker, RabbitMQBroker, RedisBroker
from tests.acceptance.databases import Database, FileDatabase, PooledDatabase, ServerDatabase
from tests.servers import require_server


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A database and a broker of one fleet's own."""

    database: Database
    broker: Broker


STACKS: Final = ("postgres-redis", "mariadb-rabbitmq", "sqlite-filesystem")


def build_stack(kind: str, *, folder: Path, name: str, cleanup: ExitStack, cuttable: bool) -> Stack:
    """Build one of :data:`STACKS`, or ``pgbouncer-redis``, for tests of what a pool of transactions changes.

    Args:
        folder: for what is in files; ``folder / "data"`` is the fleet's ``EXAMPLE_DATA_DIR``.
        name: of the database and the queue.
        cleanup: gets what removes all of it again.
        cuttable: servers are reached through a line that can be cut.
    """
    match kind:
        case "postgres-redis":
            postgres, redis = require_server("postgres"), require_server("redis")
            return Stack(
                database=ServerDatabase(postgres, name, cleanup, cuttable=cuttable),
                broker=RedisBroker(redis, name, cleanup, cuttable=cuttable),
            )
        case "pgbouncer-redis":
            postgres, redis = require_server("postgres"), require_server("redis")
            return Stack(
                database=PooledDatabase(postgres, name, cleanup),
                broker=RedisBroker(redis, name, cleanup, cuttable=cuttable),
            )
        case "mariadb-rabbitmq":
            mariadb, rabbitmq = require_server("mysql"), require_server("rabbitmq")
            return Stack(
                database=ServerDatabase(mariadb, name, cleanup, cuttable=cuttable),
                broker=RabbitMQBroker(rabbitmq, name, cleanup, cuttable=cuttable),
            )
        case _:
            return Stack(database=FileDatabase(folder, name, cleanup), broker=FolderBroker(folder / "data", name))
