"""A pgbouncer of a test's own, in transaction mode, in front of the tests' PostgreSQL."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit, urlunsplit

from tests.acceptance.waiting import wait_until
from tests.servers import Server, report_missing

_USER = "nobody"
_CONFIGURATION = """\
[databases]
* = host={host} port={port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen_port}
unix_socket_dir =
auth_type = trust
auth_file = {auth_file}
pool_mode = transaction
; Few, so that what one client leaves behind on a connection another one gets.
default_pool_size = {size}
; A database can be dropped soon after its last client has gone.
server_idle_timeout = 1
"""


class PgBouncer:
    """Runs until the cleanup."""

    def __init__(self, server: Server, cleanup: ExitStack, *, size: int = 3) -> None:
        program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
        if program is None:
            report_missing("pgbouncer is not installed; on Debian: apt-get install pgbouncer")
        folder = Path(cleanup.enter_context(TemporaryDirectory(prefix="pgbouncer_")))
        folder.chmod(0o755)  # for the user it runs as
        self._log = folder / "pgbouncer.log"
        self.port = _find_free_port()
        parts = urlsplit(server.url)
        host, port = server.address
        auth_file = folder / "pgbouncer-users"
        auth_file.write_text(f'"{parts.username or "postgres"}" "{parts.password or ""}"\n')
        configuration = folder / "pgbouncer.ini"
        configuration.write_text(
            _CONFIGURATION.format(host=host, port=port, listen_port=self.port, auth_file=auth_file, size=size)
        )
        # It refuses to run as root, which continuous integration does.
        user = _USER if os.geteuid() == 0 else None
        with self._log.open("ab") as output:
            self._popen = subprocess.Popen(
                [program, str(configuration)], stdin=subprocess.DEVNULL, stdout=output, stderr=output, user=user
            )
        cleanup.callback(self._end)
        wait_until(self._answers, f"pgbouncer to answer:\n{self.read_log()}", within_s=10)

    def through(self, url: str) -> str:
        """Return the URL of the same database seen through the pool."""
        parts = urlsplit(url)
        user = parts.netloc.rpartition("@")[0] or "postgres"
        return urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{self.port}"))

    def read_log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def _answers(self) -> bool:
        assert self._popen.poll() is None, self.read_log()
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", self.port)) == 0

    def _end(self) -> None:
        self._popen.terminate()
        self._popen.wait()


def _find_free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
