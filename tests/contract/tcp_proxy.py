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
        self._asking, self._answering = threading.Event(), threading.Event()
        self._flow()
        self._last_bytes = 0
        self._sockets: list[socket.socket] = []
        self.port = 0
        self.restore()

    def __enter__(self) -> TcpProxy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.refuse()
        self._flow()  # lets the threads see that their sockets are closed

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
        self.deafen()
        self.mute()

    def deafen(self) -> None:
        """Let nothing through to the server; what it says comes through."""
        self._asking.clear()

    def mute(self, *, after_bytes: int = 0) -> None:
        """Let nothing of the server through, but for that many bytes; it still hears everything."""
        self._last_bytes = after_bytes
        self._answering.clear()

    def restore(self) -> None:
        """Forward again; connections that were silenced are ended."""
        if self.port:
            self.refuse()
            self._flow()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _flow(self) -> None:
        self._asking.set()
        self._answering.set()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:  # the server itself is down
                client.close()
                continue
            self._sockets += [client, server]
            for forward in (self._forward_questions, self._forward_answers):
                threading.Thread(target=forward, args=(client, server), daemon=True).start()

    def _forward_questions(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                self._asking.wait()
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)

    def _forward_answers(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if not self._answering.is_set():
                    client.sendall(data[: self._last_bytes])
                    data = data[self._last_bytes :]
                    self._answering.wait()
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)
