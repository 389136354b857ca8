"""The filesystem broker: directories on one machine, safe for many publishers at once.

kombu's own filesystem transport loses messages: its reader takes a file that its writer has opened and not yet
written, a killed publisher leaves an empty one, and of several first binders of an exchange one overwrites the others.
:class:`Transport` here keeps its format, so that both kinds of processes may share the directories, and

- writes beside, under a name that no reader looks at, and renames into place;
- takes a message by renaming it, which exactly one reader can do;
- leaves alone an empty file, which kombu's writer is about to fill or died over, and waits for its lock;
- writes the table of bindings under a lock, into a new file, and only when a binding is missing.

The scheduler uses it by itself wherever the broker is ``filesystem://``. For a project's other processes:
``CELERY_BROKER_TRANSPORT = "django_leased_cron.publishing.filesystem:Transport"`` beside that URL.

Not promised: anything after a power failure (nothing is synced to the disk), and network file systems.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty
from typing import Any
from uuid import uuid4

from kombu import Connection
from kombu.exceptions import ChannelError
from kombu.transport import filesystem, virtual
from kombu.transport.filesystem import (  # type: ignore[attr-defined]  # the stubs leave out the kinds of lock
    LOCK_EX,
    LOCK_SH,
    exchange_queue_t,
    lock,
    unlock,
)
from kombu.utils.json import dumps, loads

from django_leased_cron.publishing.routes import NoRouteError, refuse_unroutable

_Binding = Any  # kombu's exchange_queue_t: routing key, pattern, queue


class Channel(filesystem.Channel):
    """kombu's channel, with every file written and taken in one step."""

    def _put(self, queue: str, payload: Any, **kwargs: Any) -> None:  # type: ignore[override]  # two names in the stubs
        _refuse_path(queue)
        # kombu's readers go by the order of names, which begin with milliseconds; the rest keeps the order within one.
        milliseconds, rest_ns = divmod(time.monotonic_ns(), 1_000_000)
        name = f"{milliseconds}_{rest_ns:06d}-{uuid4()}.{queue}.msg"
        _write_in_one_step(Path(self.data_folder_out, name), dumps(payload))

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        folder = Path(self.data_folder_in)
        for name in sorted(os.listdir(folder)):
            if name.partition(".")[2] != f"{queue}.msg":
                continue
            taken = folder / f".{uuid4()}.taken"
            try:
                if not (folder / name).stat().st_size:
                    continue
                (folder / name).rename(taken)
            except FileNotFoundError:  # another reader was quicker
                continue
            with _locked(taken, LOCK_SH) as file:
                payload = file.read()
            if self.store_processed:
                shutil.move(taken, Path(self.processed_folder, name))
            else:
                taken.unlink()
            return loads(payload)
        raise Empty

    def get_table(self, exchange: str) -> list[_Binding]:
        """Return the bindings in the table, and those that this process has made.

        A first binder of kombu's own kind may just have overwritten ours, or be about to write.
        """
        ours = (self.state.exchanges or {}).get(exchange, {}).get("table", ())
        return list(dict.fromkeys([*self._read_table(exchange), *(_binding(*meta) for meta in ours)]))

    def _queue_bind(self, exchange: str, routing_key: str | None, pattern: str | None, queue: str) -> None:
        new = _binding(routing_key, pattern, queue)
        if new not in self._read_table(exchange):
            self._change_table(exchange, lambda table: table if new in table else [new, *table])

    def _delete(self, queue: str, exchange: str, routing_key: str, pattern: str, *args: Any, **kwargs: Any) -> None:
        self._purge(queue)
        old = _binding(routing_key, pattern, queue)
        if old in self._read_table(exchange):
            self._change_table(exchange, lambda table: [binding for binding in table if binding != old])

    def _read_table(self, exchange: str) -> list[_Binding]:
        try:
            with _locked(self._table_path(exchange), LOCK_SH) as file:
                text = file.read()
        except FileNotFoundError:
            return []
        return [exchange_queue_t(*binding) for binding in loads(text)] if text else []

    def _change_table(self, exchange: str, change: Callable[[list[_Binding]], list[_Binding]]) -> None:
        path = self._table_path(exchange)
        path.parent.mkdir(parents=True, exist_ok=True)
        guard = path.with_name(f"{path.name}.lock")
        guard.touch()
        with _locked(guard, LOCK_EX):
            _write_in_one_step(path, dumps(change(self._read_table(exchange))))

    def _table_path(self, exchange: str) -> Path:
        _refuse_path(exchange)
        return Path(self.control_folder, f"{exchange}.exchange")


class Transport(filesystem.Transport):
    """kombu's filesystem transport, over the channel above."""

    Channel = Channel
    global_state = virtual.BrokerState()  # what a stock channel of this process bound may have been overwritten


class FilesystemBroker:
    def connection_options(self, *, bound_s: float) -> dict[str, Any]:
        return {"transport": f"{Transport.__module__}:{Transport.__qualname__}"}

    def open_channel(self, connection: Connection, *, bound_s: float) -> Any:
        return refuse_unroutable(connection.channel())

    def ping(self, channel: Any) -> None:
        probe = Path(channel.data_folder_out, f".{uuid4()}.probe")
        probe.write_bytes(b"?")
        probe.unlink()

    def is_refusal(self, error: BaseException) -> bool:
        if isinstance(error, OSError):
            return error.errno in (errno.ENAMETOOLONG, errno.EFBIG)
        return isinstance(error, NoRouteError | ChannelError)


def _binding(routing_key: str | None, pattern: str | None, queue: str | None) -> _Binding:
    return exchange_queue_t(routing_key or "", pattern or "", queue or "")


def _refuse_path(name: str) -> None:
    if os.sep in name:
        message = f"{name!r} cannot be the name of a queue or an exchange here: it holds {os.sep!r}"
        raise ChannelError(message)


def _write_in_one_step(path: Path, text: str) -> None:
    """Put a complete file in place, or none."""
    beside = path.with_name(f".{uuid4()}.tmp")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _locked(path: Path, kind: int) -> Iterator[Any]:
    with path.open("rb", buffering=0) as file:
        lock(file, kind)
        try:
            yield file
        finally:
            unlock(file)
