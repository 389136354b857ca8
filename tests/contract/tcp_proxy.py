"""A server seen through a line that a test can cut, silence and restore."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType


class TcpProxy:
    """Forwards a local port to a server; use as a context manager."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._flowing = threading.Event()
        self._flowing.set()
        self._sockets: list[socket.socket] = []
        self.port = 0
        self.restore()

    def __enter__(self) -> TcpProxy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.refuse()
        self._flowing.set()  # lets the threads see that their sockets are closed

    def cut(self) -> None:
        """End all connections; new ones are welcome."""
        while self._sockets:
            line = self._sockets.pop()
            with contextlib.suppress(OSError):  # it may have ended by itself
                line.shutdown(socket.SHUT_RDWR)
            line.close()

    def refuse(self) -> None:
        """Be as a server that is down."""
        with contextlib.suppress(OSError):  # wakes the thread that accepts
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def silence(self) -> None:
        """Be as a network that swallows everything: connections stay, nothing comes through."""
        self._flowing.clear()

    def restore(self) -> None:
        """Forward again; connections that were silenced are ended."""
        if self.port:
            self.refuse()
            self._flowing.set()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
                server = socket.create_connection(self._target)
            except OSError:
                return
            self._sockets += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._flowing.wait()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
