"""What lies between a fleet's processes and their database or broker, and can be cut by a test."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

from tests.contract.tcp_proxy import TcpProxy
from tests.servers import Server


class Line(Protocol):
    """The way to a database or a broker."""

    def cut(self) -> None:
        """Let it look as if the other end were down."""
        ...

    def restore(self) -> None:
        """Let it come back."""
        ...


class DirectLine:
    """Nothing in between: the plain case, without the cost of a proxy."""

    def cut(self) -> None:
        message = "only the fleet of the fixture cuttable_fleet can be cut off"
        raise AssertionError(message)

    restore = cut


class FolderLine:
    """The name under which a folder, or a link to one, is looked for."""

    def __init__(self, folder: Path) -> None:
        self._here = folder
        self._away = folder.with_name(f"{folder.name}-away")

    def cut(self) -> None:
        self._here.rename(self._away)

    def restore(self) -> None:
        self._away.rename(self._here)


class ServerLine:
    """A proxy."""

    def __init__(self, server: Server, cleanup: ExitStack) -> None:
        self._proxy = cleanup.enter_context(TcpProxy(server.address))

    def through(self, url: str) -> str:
        """Return the URL of the same server seen through the proxy."""
        parts = urlsplit(url)
        user, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{user}{at}127.0.0.1:{self._proxy.port}"))

    def cut(self) -> None:
        self._proxy.refuse()

    def silence(self) -> None:
        """Let nothing through any more, with all connections open."""
        self._proxy.silence()

    def deafen(self) -> None:
        """Let the server hear nothing any more, with all connections open."""
        self._proxy.deafen()

    def mute(self) -> None:
        """Let nothing of the server be heard any more, with all connections open."""
        self._proxy.mute()

    def restore(self) -> None:
        self._proxy.restore()


def lay_line(server: Server, url: str, cleanup: ExitStack, *, cuttable: bool) -> tuple[Line, str]:
    """Return a line to a server, and its URL as seen through the line."""
    if not cuttable:
        return DirectLine(), url
    line = ServerLine(server, cleanup)
    return line, line.through(url)
