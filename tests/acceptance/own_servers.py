"""Servers of one test's own, which it may stop, kill, freeze, fill up and put on another clock."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from amqp import AMQPError
from django.db import DatabaseError
from django.db.utils import ConnectionHandler
from kombu import Connection
from redis import Redis, RedisError

from example_project.database_url import parse_database_url
from tests.acceptance.waiting import wait_until
from tests.servers import SERVERS, Server

_DATABASES = ("postgres", "mysql")
_START_S = 30.0
_STOP_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How one kind of server is set up, started and asked whether it is there."""

    name: str
    user: str
    set_up: Callable[[Path], Sequence[str] | None]
    command: Callable[[Path, int], Sequence[str]]
    url: Callable[[int], str]
    answers: Callable[[str], bool]
    environment: Callable[[Path, int], Mapping[str, str]] = lambda _folder, _port: {}
    polite: signal.Signals = signal.SIGTERM
    at_once: signal.Signals = signal.SIGKILL


@dataclass(slots=True, kw_only=True)
class OwnServer:
    """One server on a port and in a folder of its own; :meth:`close` ends it and leaves the folder to its owner."""

    program: Program
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int = field(init=False)
    _popen: subprocess.Popen[bytes] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.port = _find_free_port()

    def set_up(self) -> None:
        """Prepare the folder."""
        if _is_root():
            shutil.chown(self.folder, self.program.user, self.program.user)
        arguments = self.program.set_up(self.folder)
        if arguments is not None:
            self._popen = self._spawn(arguments)
            assert self._popen.wait(_START_S) == 0, self.read_log()

    @property
    def is_running(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    @property
    def url(self) -> str:
        return self.program.url(self.port)

    @property
    def server(self) -> Server:
        """What the rest of the tests know a server as."""
        usual = SERVERS[self.program.name]
        return Server(title=f"own {usual.title}", variable="", default_url=self.url, driver=usual.driver, is_own=True)

    def start(self) -> None:
        """Start it and return when it answers."""
        self._popen = self._spawn(self.program.command(self.folder, self.port))

        def answers() -> bool:
            assert self._popen is not None
            assert self._popen.poll() is None, self.read_log()
            return self.program.answers(self.url)

        wait_until(answers, f"{self.program.name} to answer", within_s=_START_S, every_s=0.05)

    def stop(self) -> None:
        """End it as an operator does, or at the end of patience."""
        self._end(self.program.polite)

    def kill(self) -> None:
        """Let it end without a word to its clients."""
        self._end(self.program.at_once)

    def freeze(self) -> None:
        """SIGSTOP: connections stay, and nothing is answered."""
        assert self._popen is not None
        os.killpg(self._popen.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self._popen.pid, os.WSTOPPED)

    def resume(self) -> None:
        """SIGCONT."""
        assert self._popen is not None
        os.killpg(self._popen.pid, signal.SIGCONT)

    def close(self) -> None:
        if self.is_running:
            self.resume()
            self.kill()

    def read_log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def _end(self, how: signal.Signals) -> None:
        assert self._popen is not None
        os.killpg(self._popen.pid, how)
        try:
            self._popen.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._popen.pid, signal.SIGKILL)
            self._popen.wait()

    def _spawn(self, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        user = self.program.user if _is_root() else None
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                arguments,
                cwd=self.folder,
                env={**os.environ, **self.environment, **self.program.environment(self.folder, self.port)},
                user=user,
                group=user,
                extra_groups=[] if user else None,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that what the program starts in its turn gets its signals too
            )


class OwnServers:
    """Starts each server when it is first asked for; the cleanup ends all and removes what they wrote."""

    def __init__(
        self, folder: Path, cleanup: ExitStack, *, database_environment: Mapping[str, str], disk_mb: int | None = None
    ) -> None:
        self._folder = folder
        self._cleanup = cleanup
        self._servers: dict[str, OwnServer] = {}
        self._database_environment = database_environment
        self._disk_mb = disk_mb

    def __getitem__(self, name: str) -> OwnServer:
        return self._servers[name]

    def require(self, name: str) -> Server:
        """Start a server, or skip the test where its programs are not installed; with ``CI=true`` that is a failure."""
        if name not in self._servers:
            program = PROGRAMS[name]()
            folder = self._folder / name
            folder.mkdir(parents=True)
            _let_others_pass(self._folder)
            if self._disk_mb is not None:
                self._cleanup.enter_context(small_disk(folder, megabytes=self._disk_mb))
            environment = self._database_environment if name in _DATABASES else {}
            own = self._servers[name] = OwnServer(program=program, folder=folder, environment=environment)
            self._cleanup.callback(own.close)
            own.set_up()
            own.start()
        return self._servers[name].server


@contextmanager
def small_disk(folder: Path, *, megabytes: int) -> Iterator[None]:
    """Mount a disk of that size, in memory, on a folder; skip the test where that is not permitted."""
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounting.returncode != 0:
        message = f"no disk can be mounted: {mounting.stderr.strip()}"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    try:
        yield
    finally:
        # Lazily: a process that is ending may still have a file open.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def require_program(name: str, *folders: str, first: str = "") -> str:
    """Return the path of a program, or skip the test; with ``CI=true`` a missing one is a failure."""
    path = os.pathsep.join([first, os.environ.get("PATH", ""), "/usr/sbin", *folders])
    found = shutil.which(name, path=path)
    if found is not None:
        return found
    message = f"the program {name} is not installed"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


def _build_postgres() -> Program:
    newest = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path(), key=lambda path: path.parent.name)
    initdb, postgres = (require_program(name, str(newest)) for name in ("initdb", "postgres"))

    def set_up(folder: Path) -> Sequence[str]:
        options = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync"]
        return [initdb, f"--pgdata={folder / 'data'}", *options]

    def command(folder: Path, port: int) -> Sequence[str]:
        options = f"-c listen_addresses=127.0.0.1 -c unix_socket_directories= -c port={port} -c shared_buffers=16MB"
        return [postgres, "-D", str(folder / "data"), *options.split()]

    return Program(
        name="postgres",
        user="postgres",
        set_up=set_up,
        command=command,
        url=lambda port: f"postgres://postgres@127.0.0.1:{port}",
        answers=lambda url: _takes_statements(f"{url}/postgres"),
        polite=signal.SIGINT,  # sessions are ended; SIGTERM would wait for them to leave
        at_once=signal.SIGQUIT,  # a postmaster that is killed leaves its children for a while
    )


def _build_mariadb() -> Program:
    mariadbd, install = (require_program(name) for name in ("mariadbd", "mariadb-install-db"))

    def set_up(folder: Path) -> Sequence[str]:
        options = ["--auth-root-authentication-method=normal", "--skip-test-db"]
        return [install, "--no-defaults", f"--datadir={folder / 'data'}", *options]

    def command(folder: Path, port: int) -> Sequence[str]:
        data, socket_file = folder / "data", folder / "socket"
        options = ["--bind-address=127.0.0.1", "--innodb-buffer-pool-size=32M", "--skip-log-bin"]
        return [mariadbd, "--no-defaults", f"--datadir={data}", f"--socket={socket_file}", f"--port={port}", *options]

    return Program(
        name="mysql",
        user="mysql",
        set_up=set_up,
        command=command,
        url=lambda port: f"mysql://root@127.0.0.1:{port}",
        answers=lambda url: _takes_statements(f"{url}/mysql"),
    )


def _build_redis() -> Program:
    redis_server = require_program("redis-server")

    def command(folder: Path, port: int) -> Sequence[str]:
        # Every message is on disk before it is acknowledged: what a restart loses is then not the broker's loss.
        options = f"--port {port} --bind 127.0.0.1 --dir {folder} --appendonly yes --appendfsync always --save".split()
        return [redis_server, *options, ""]

    return Program(
        name="redis",
        user="redis" if _has_user("redis") else "root",
        set_up=lambda _: None,
        command=command,
        url=lambda port: f"redis://127.0.0.1:{port}/0",
        answers=_pings,
    )


def _build_rabbitmq() -> Program:
    # Not the one in /usr/sbin: that changes the user once more.
    rabbitmq_server = require_program("rabbitmq-server", first="/usr/lib/rabbitmq/bin")

    def environment(folder: Path, port: int) -> Mapping[str, str]:
        return {
            "HOME": str(folder),
            "RABBITMQ_NODENAME": f"fleet{port}@localhost",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",  # the machine's own server has its settings there
            "RABBITMQ_CONFIG_FILE": str(folder / "none"),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(_find_free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RUNNING_UNDER_SYSTEMD": "1",  # its script becomes the server, in place of waiting for it
        }

    return Program(
        name="rabbitmq",
        user="rabbitmq",
        set_up=lambda _: None,
        command=lambda _folder, _port: [rabbitmq_server],
        url=lambda port: f"amqp://guest:guest@127.0.0.1:{port}//",
        answers=_accepts_connections,
        environment=environment,
    )


PROGRAMS: Final[Mapping[str, Callable[[], Program]]] = {
    "postgres": _build_postgres,
    "mysql": _build_mariadb,
    "redis": _build_redis,
    "rabbitmq": _build_rabbitmq,
}


def _takes_statements(url: str) -> bool:
    settings = parse_database_url(url)
    if settings["ENGINE"].endswith("postgresql"):
        settings["OPTIONS"] = {"connect_timeout": 1}
    connection = ConnectionHandler({"default": settings})["default"]
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    finally:
        connection.close()
    return True


def _pings(url: str) -> bool:
    client = Redis.from_url(url, socket_timeout=1)
    try:
        return bool(client.ping())
    except RedisError:
        return False
    finally:
        client.close()


def _accepts_connections(url: str) -> bool:
    try:
        with Connection(url, connect_timeout=5) as connection:
            connection.connect()
    except (OSError, AMQPError):
        return False
    return True


def _let_others_pass(folder: Path) -> None:
    """Let the servers' users through the folders above theirs, which are of this test alone."""
    if _is_root():
        folder.parent.chmod(0o711)
        folder.chmod(0o711)


def _find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def _is_root() -> bool:
    return os.geteuid() == 0


def _has_user(name: str) -> bool:
    return any(entry.pw_name == name for entry in pwd.getpwall())
