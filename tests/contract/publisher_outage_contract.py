"""What holds for broker adapters whose broker can go away, fall silent and come back."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from celery.signals import before_task_publish

from django_leased_cron.core.publication import Accepted, NotStarted, Refused, Unknown
from tests.contract.publisher_bench import PUBLISH_TIMEOUT_S, Bench, WayOut, kinds, publication, task_ids
from tests.contract.publisher_contract import SECRET, Connect, PublisherContract
from tests.contract.tcp_proxy import TcpProxy


class OutageContract(PublisherContract):
    """What holds for brokers that can go away; subclasses also provide ``way_out``."""

    def test_without_a_broker_nothing_is_begun(self, bench: Bench, way_out: WayOut) -> None:
        """From the start; and when it is there, publishing goes on by itself."""
        way_out.remove()
        assert bench.publisher.is_answering() is False
        assert kinds(bench.publish(publication(), publication())) == [NotStarted, NotStarted]

        way_out.restore()
        assert bench.publisher.is_answering() is True
        wanted = publication()
        assert kinds(bench.publish(wanted)) == [Accepted]
        assert task_ids(bench.receive()) == [wanted.task_id]

    def test_a_broker_that_goes_away_between_batches(self, bench: Bench, way_out: WayOut) -> None:
        """The connection that died unnoticed costs nothing: neither a message nor its certainty."""
        bench.publish(publication())
        assert bench.publisher.is_answering() is True
        way_out.remove()
        results = bench.publish(publication(args=[SECRET, 2]))
        assert kinds(results) == [NotStarted]
        assert isinstance(results[0], NotStarted)
        assert SECRET not in results[0].reason
        assert bench.publisher.is_answering() is False

        way_out.restore()
        assert kinds(bench.publish(publication(), publication())) == [Accepted, Accepted]
        assert bench.publisher.is_answering() is True
        assert len(bench.receive()) == 3


class NetworkContract(OutageContract):
    """What holds for brokers behind a network; subclasses also provide ``proxy``."""

    @pytest.fixture
    def way_out(self, proxy: TcpProxy) -> WayOut:
        return WayOut(remove=proxy.refuse, restore=proxy.restore)

    def test_a_restart_between_batches_is_not_noticed(self, bench: Bench, proxy: TcpProxy) -> None:
        """The first message after it is neither lost nor uncertain."""
        bench.publish(publication())
        proxy.cut()
        assert kinds(bench.publish(publication(), publication())) == [Accepted, Accepted]
        assert len(bench.receive()) == 3

    def test_a_connection_that_falls_silent_under_a_message(
        self, bench: Bench, proxy: TcpProxy, calls: Connect
    ) -> None:
        """That one may have arrived, the rest was not begun, and all is known within half of the publish timeout."""
        publications = [publication(), publication(), publication()]

        def silence(headers: dict[str, Any], **_: Any) -> None:
            if headers["id"] == publications[1].task_id:
                proxy.silence()

        calls(before_task_publish, silence)
        began = time.monotonic()
        assert kinds(bench.publish(*publications)) == [Accepted, Unknown, NotStarted]
        assert time.monotonic() - began < PUBLISH_TIMEOUT_S / 2

        proxy.restore()
        wanted = publication()
        assert kinds(bench.publish(wanted)) == [Accepted]
        assert wanted.task_id in task_ids(bench.receive())

    def test_a_fault_that_a_lost_connection_may_explain_is_not_yet_the_messages(
        self, bench: Bench, proxy: TcpProxy, calls: Connect
    ) -> None:
        """Client libraries stumble over one in many ways; while the broker does not answer, nothing is refused."""
        at_fault = publication(args=[1, object()])

        def lose(**_: Any) -> None:
            proxy.refuse()

        calls(before_task_publish, lose)
        assert kinds(bench.publish(at_fault)) == [NotStarted]
        before_task_publish.disconnect(lose)
        proxy.restore()
        assert kinds(bench.publish(at_fault, publication())) == [Refused, Accepted]

    def test_a_silent_broker_does_not_answer(self, bench: Bench, proxy: TcpProxy) -> None:
        """Be it asked for the first time or on an open connection, it is known after about a second."""
        for first in (True, False):
            if not first:
                assert bench.publisher.is_answering() is True
            proxy.silence()
            began = time.monotonic()
            assert bench.publisher.is_answering() is False
            assert time.monotonic() - began < 1.5
            proxy.restore()

    def test_a_silent_broker_is_given_up_before_the_deadline(self, bench: Bench, proxy: TcpProxy) -> None:
        """A batch of many does not wait once for each."""
        proxy.silence()
        began = time.monotonic()
        assert kinds(bench.publish(*(publication() for _ in range(50)))) == [NotStarted] * 50
        assert time.monotonic() - began < PUBLISH_TIMEOUT_S / 2

    def test_probing_does_not_disturb_publishing(self, bench: Bench) -> None:
        """Another thread may ask whether the broker answers while a batch is on its way."""
        answers: list[bool] = []
        done = threading.Event()

        def probe() -> None:
            while not done.is_set():
                answers.append(bench.publisher.is_answering())

        thread = threading.Thread(target=probe)
        thread.start()
        try:
            assert kinds(bench.publish(*(publication() for _ in range(200)))) == [Accepted] * 200
        finally:
            done.set()
            thread.join()
        assert answers
        assert all(answers)
