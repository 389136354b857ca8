"""What only a server can say of an alias: which database it is, and whether anything can be written to it."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.db.backends.base.base import BaseDatabaseWrapper

# The moment at which a server started, or its name and port, together with the name of the database: what two aliases
# share that reach it by different addresses, through a proxy or a socket. A replica has others, and is read-only.
_ASK: Final[Mapping[str, str]] = {
    "postgresql": """SELECT current_setting('transaction_read_only') = 'on', current_database(),
        pg_postmaster_start_time()::text, current_schema()""",
    "mysql": "SELECT @@global.read_only, DATABASE(), @@hostname, @@port",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    is_read_only: bool
    identity: Hashable
    """Equal for two aliases that lead to one database."""


def ask_server(connection: BaseDatabaseWrapper) -> ServerFacts | None:
    """Return what the database says of itself; ``None``: there is no way to ask. Raises ``django.db.Error``."""
    sql = _ASK.get(connection.vendor)
    if sql is not None:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            is_read_only, *identity = cursor.fetchone()
        return ServerFacts(is_read_only=bool(is_read_only), identity=tuple(identity))
    path = Path(str(connection.settings_dict["NAME"]))
    if not path.is_file():
        return None  # in memory, or not there yet
    found = path.stat()
    return ServerFacts(is_read_only=not os.access(path, os.W_OK), identity=(found.st_dev, found.st_ino))
