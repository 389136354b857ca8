"""What is done to a fleet, each as a context: the harm is there inside, and undone at the end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final

from django.db import Error, connections, transaction

from tests.acceptance.fleet import Fleet
from tests.acceptance.lines import Line, ServerLine
from tests.acceptance.own_servers import OwnServer
from tests.acceptance.repeating import repeating

LOCK_OF_ALL_LEASES: Final = "SELECT * FROM leased_cron_schedulerlease FOR UPDATE"
WRITE_OF_NOTHING: Final = "DELETE FROM leased_cron_occurrence WHERE id < 0"


@contextmanager
def cut_off(line: Line) -> Iterator[None]:
    """Let connections be refused."""
    line.cut()
    yield
    line.restore()


@contextmanager
def half_open(line: Line, harm: Callable[[ServerLine], None]) -> Iterator[None]:
    """Let connections stay, and nothing come through: ``ServerLine.deafen``, ``mute`` or ``silence``."""
    assert isinstance(line, ServerLine)
    harm(line)
    yield
    line.restore()


@contextmanager
def sessions_terminated(fleet: Fleet, *, every_s: float) -> Iterator[None]:
    """End every session of the fleet's database, again and again."""
    spared = _read_session(fleet)
    with repeating(lambda: _terminate_sessions(fleet, spared), every_s=every_s):
        yield


@contextmanager
def down(server: OwnServer, *, polite: bool) -> Iterator[None]:
    """Stop or kill a server, and start it again at the end."""
    if polite:
        server.stop()
    else:
        server.kill()
    yield
    server.start()


@contextmanager
def database_down(fleet: Fleet, *, polite: bool) -> Iterator[None]:
    """The same with the server of the fleet's database, to which the test itself has a connection."""
    connections[fleet.database.alias].close()
    with down(fleet.own_database_server, polite=polite):
        yield


@contextmanager
def frozen(server: OwnServer) -> Iterator[None]:
    """SIGSTOP, and SIGCONT at the end."""
    server.freeze()
    yield
    server.resume()


@contextmanager
def read_only(fleet: Fleet) -> Iterator[None]:
    """Let the database take no writes, as after a fail-over to a replica; the server is the fleet's own."""
    connection = connections[fleet.database.alias]
    if connection.vendor == "postgresql":
        name = connection.settings_dict["NAME"]
        _execute(fleet, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        _terminate_sessions(fleet, _read_session(fleet))
        yield
        _execute(
            fleet, f"SET default_transaction_read_only = off; ALTER DATABASE {name} RESET default_transaction_read_only"
        )
        _terminate_sessions(fleet, _read_session(fleet))
    else:
        # The fleet's processes must be somebody who may not write all the same, see give_a_user_of_its_own().
        _execute(fleet, "SET GLOBAL read_only = 1")
        yield
        _execute(fleet, "SET GLOBAL read_only = 0")


def give_a_user_of_its_own(fleet: Fleet) -> None:
    """Let processes that start from now on be a user of MariaDB who may do all in their database, and no more."""
    connection = connections[fleet.database.alias]
    if connection.vendor == "mysql":
        _execute(fleet, "CREATE USER fleet@localhost")
        _execute(fleet, f"GRANT ALL ON {connection.settings_dict['NAME']}.* TO fleet@localhost")
        fleet.database.url = fleet.database.url.replace("//root@", "//fleet@")


@contextmanager
def locked(fleet: Fleet, sql: str) -> Iterator[None]:
    """Keep a transaction open in which a statement was executed."""
    alias = fleet.database.alias
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        cursor.execute(sql)
        yield


@contextmanager
def processors_busy(count: int) -> Iterator[None]:
    """Let that many processes do nothing, as fast as they can."""
    with ExitStack() as stack:
        for _ in range(count):
            busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(busy.wait)
            stack.callback(busy.kill)
        yield


def _read_session(fleet: Fleet) -> int:
    """Return the number of this thread's own session in the fleet's database."""
    is_postgres = connections[fleet.database.alias].vendor == "postgresql"
    ((number,),) = _execute(fleet, f"SELECT {'pg_backend_pid' if is_postgres else 'connection_id'}()")
    return int(number)


def _terminate_sessions(fleet: Fleet, spared: int) -> None:
    """End every session in the fleet's database but the one that does it and one that is spared."""
    connection = connections[fleet.database.alias]
    if connection.vendor == "postgresql":
        _execute(
            fleet,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE datname = current_database() AND pid NOT IN ({spared}, pg_backend_pid())",
        )
        return
    sessions = (
        f"SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id NOT IN ({spared}, CONNECTION_ID())"
    )
    for (number,) in _execute(fleet, sessions):
        with suppress(Error):  # it may have ended meanwhile
            _execute(fleet, f"KILL {number}")


def _execute(fleet: Fleet, sql: str) -> list[Any]:
    with connections[fleet.database.alias].cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall()) if cursor.description else []
