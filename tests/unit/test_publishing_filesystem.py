"""The filesystem transport: every file is seen whole, and by one reader."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from kombu import Connection
from kombu.exceptions import ChannelError
from kombu.transport import filesystem as stock

from django_leased_cron.publishing.filesystem import Transport

OpenChannel = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def open_channel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> OpenChannel:
    """Open channels of either kind, as in a process that has bound nothing yet."""

    def open_one(transport: type[Any] = Transport, **options: Any) -> Any:
        monkeypatch.setattr(transport, "global_state", type(transport.global_state)())
        folders = {"data_folder_in": str(folder), "data_folder_out": str(folder)}
        control = {"control_folder": str(folder.parent / "control")}
        return Connection("filesystem://", transport=transport, transport_options=folders | control | options).channel()

    return open_one


def bind(channel: Any, queue: str) -> None:
    channel.exchange_declare("topics", type="topic")
    channel.queue_bind(queue, "topics", "a.*")


def seen_by_stock_readers(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.partition(".")[2] == "q.msg"]


def test_no_reader_sees_a_message_that_is_being_written(
    folder: Path, open_channel: OpenChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It appears under its name only when it is complete."""
    seen: list[list[str]] = []
    write = Path.write_text

    def watch(path: Path, *args: Any, **kwargs: Any) -> int:
        written = write(path, *args, **kwargs)
        seen.append(seen_by_stock_readers(folder))
        return written

    monkeypatch.setattr(Path, "write_text", watch)
    open_channel()._put("q", {"n": 1})
    assert seen == [[]]
    assert len(seen_by_stock_readers(folder)) == 1
    assert open_channel(stock.Transport)._get("q") == {"n": 1}


def test_a_write_that_fails_leaves_nothing(
    folder: Path, open_channel: OpenChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a message nor a remainder of one."""
    channel = open_channel()

    def fill_the_disk(path: Path, text: str, **_: Any) -> int:
        path.write_bytes(text.encode()[:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fill_the_disk)
    with pytest.raises(OSError, match="No space left"):
        channel._put("q", {"n": 1})
    assert os.listdir(folder) == []


def test_messages_of_one_moment_keep_their_order(open_channel: OpenChannel) -> None:
    """Many fit into the millisecond by which kombu orders them."""
    writer, reader = open_channel(), open_channel(stock.Transport)
    for number in range(200):
        writer._put("q", number)
    assert [reader._get("q") for _ in range(200)] == list(range(200))


def test_an_empty_file_is_left_alone(folder: Path, open_channel: OpenChannel) -> None:
    """kombu's own writer has opened it and not written yet; or it died, and what follows is read all the same."""
    reader = open_channel()
    unfinished = folder / "1_any.q.msg"
    unfinished.touch()
    with pytest.raises(Empty):
        reader._get("q")

    reader._put("q", "next")
    assert reader._get("q") == "next"

    unfinished.write_text('"first"')
    assert reader._get("q") == "first"
    assert os.listdir(folder) == []


def test_a_message_that_another_reader_takes_is_passed_over(
    folder: Path, open_channel: OpenChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the listing and the taking."""
    reader = open_channel()
    for number in (1, 2):
        reader._put("q", number)
    listing = os.listdir(folder)
    assert reader._get("q") == 1
    monkeypatch.setattr(os, "listdir", lambda _: listing)
    assert reader._get("q") == 2
    with pytest.raises(Empty):
        reader._get("q")


def test_other_queues_are_left_alone(open_channel: OpenChannel) -> None:
    """A reader takes what is for its queue; the size and a purge count the same."""
    channel = open_channel()
    channel._put("q", 1)
    channel._put("q.other", 2)
    assert channel._size("q") == 1
    assert channel._get("q.other") == 2
    assert channel._purge("q") == 1


def test_processed_messages_can_be_kept(tmp_path: Path, folder: Path, open_channel: OpenChannel) -> None:
    """As with kombu's own transport."""
    kept = tmp_path / "kept"
    kept.mkdir()
    channel = open_channel(store_processed=True, processed_folder=str(kept))
    channel._put("q", 1)
    (name,) = os.listdir(folder)
    assert channel._get("q") == 1
    assert os.listdir(kept) == [name]
    assert os.listdir(folder) == []


def test_bindings_add_up_and_go_away(open_channel: OpenChannel) -> None:
    """Each is in the table once, whoever made it, and until its queue is deleted."""
    for transport, queue in ((Transport, "one"), (stock.Transport, "two"), (Transport, "one")):
        bind(open_channel(transport), queue)
    channel = open_channel()
    bind(channel, "three")
    assert {binding.queue for binding in open_channel(stock.Transport).get_table("topics")} == {"one", "two", "three"}
    assert len(open_channel(stock.Transport).get_table("topics")) == 3

    channel.queue_delete("three")
    assert {binding.queue for binding in open_channel().get_table("topics")} == {"one", "two"}


@pytest.mark.parametrize("left_behind", ["", "[]"])
def test_a_binding_that_another_first_binder_overwrote_still_counts(
    folder: Path, open_channel: OpenChannel, left_behind: str
) -> None:
    """kombu's own empties the table before it writes it."""
    channel = open_channel()
    bind(channel, "q")
    (folder.parent / "control" / "topics.exchange").write_text(left_behind)
    channel.typeof("topics").deliver({"n": 1}, "topics", "a.b")
    assert channel._get("q") == {"n": 1}


@pytest.mark.parametrize("name", ["../outside", f"a{os.sep}b"])
def test_a_name_that_is_a_path_is_refused(open_channel: OpenChannel, name: str) -> None:
    """Names of queues and exchanges become names of files."""
    channel = open_channel()
    with pytest.raises(ChannelError, match="cannot be the name"):
        channel._put(name, 1)
    with pytest.raises(ChannelError, match="cannot be the name"):
        channel._queue_bind(name, "k", "", "q")
