"""A server that takes the bytes and never answers."""

from __future__ import annotations

import socket
import threading

import pytest

from django_leased_cron.core.clock import SystemClock
from django_leased_cron.database.deadline import SocketDeadlines


def test_silent_peer_is_given_up() -> None:
    """A read that would block for ever ends when its time is over."""
    ours, theirs = socket.socketpair()
    with ours, theirs, SocketDeadlines(SystemClock()).watch(ours.fileno(), seconds=0.05):
        assert ours.recv(1) == b""


def test_answer_in_time_leaves_the_socket_alone() -> None:
    """What was watched and has answered goes on working after its deadline."""
    ours, theirs = socket.socketpair()
    deadlines = SocketDeadlines(SystemClock())
    with ours, theirs:
        with deadlines.watch(ours.fileno(), seconds=0.05):
            pass
        late, silent = socket.socketpair()
        with late, silent, deadlines.watch(late.fileno(), seconds=0.1):
            assert late.recv(1) == b""  # the watcher has looked after the first deadline too
        theirs.send(b"x")
        assert ours.recv(1) == b"x"


@pytest.mark.parametrize("count", [50])
def test_one_thread_watches_any_number(count: int) -> None:
    """Threads do not grow with what is watched."""
    deadlines = SocketDeadlines(SystemClock())
    before = set(threading.enumerate())
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for _ in range(count):
            with deadlines.watch(ours.fileno(), seconds=60):
                pass
        new = [thread for thread in set(threading.enumerate()) - before if thread.name == "database-deadlines"]
        assert len(new) == 1
