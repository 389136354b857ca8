"""The contract of the publishers over directories, and what many processes make of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Exchange, Queue

from django_leased_cron.publishing.filesystem import Channel
from tests.contract.publisher_bench import Bench, WayOut, build_app, do_nothing, publication, task_ids

pytest.register_assert_rewrite("tests.contract.publisher_contract", "tests.contract.publisher_outage_contract")

# pytest shows the values in its assertions only if it is imported after that.
from tests.contract.publisher_outage_contract import OutageContract  # noqa: E402

PUBLISH_FROM_ANOTHER_PROCESS = """
import json, sys
from celery import Celery
from kombu import Exchange, Queue
from django_leased_cron.core.clock import SystemClock, later
from django_leased_cron.core.publication import Accepted, Publication
from django_leased_cron.publishing import build_publisher
from django_leased_cron.publishing.filesystem import Channel

name, count, options = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
app = Celery("publisher", broker="filesystem://")
exchange = Exchange("topics", type="topic")
app.conf.update(
    broker_transport_options=options,
    task_queues=[Queue("wanted", exchange, routing_key="a.b")],
    task_default_queue="wanted", task_default_exchange="topics", task_default_routing_key="a.b",
)
clock = SystemClock()
publisher = build_publisher(app, clock, 100)
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    one = Publication(occurrence_id=number, attempt=1, task="any", task_id=f"{name}-{number}", args=["x" * 300])
    (result,) = publisher.publish([one], start_deadline=later(clock.boot_time(), 50))
    assert isinstance(result, Accepted), result
"""


class TestFilesystem(OutageContract):
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "data"
        folder.mkdir()
        return folder

    @pytest.fixture
    def options(self, folder: Path) -> dict[str, str]:
        return {
            "data_folder_in": str(folder),
            "data_folder_out": str(folder),
            "control_folder": str(folder.parent / "control"),
        }

    @pytest.fixture
    def bench(self, options: dict[str, str]) -> Iterator[Bench]:
        bench = Bench(app=build_app("filesystem://", broker_transport_options=options))
        yield bench
        bench.publisher.close()

    @pytest.fixture
    def way_out(self, folder: Path) -> WayOut:
        away = folder.with_name("away")
        return WayOut(remove=lambda: do_nothing(folder.rename(away)), restore=lambda: do_nothing(away.rename(folder)))

    def test_a_project_can_use_the_same_transport(self, bench: Bench, options: dict[str, str]) -> None:
        """By one setting, for its workers and for what it sends itself."""
        app = build_app(
            "filesystem://",
            broker_transport="django_leased_cron.publishing.filesystem:Transport",
            broker_transport_options=options,
        )
        app.conf.task_default_queue = bench.queue
        app.send_task("any", task_id="by-the-project")
        bench.publish(publication(task_id="by-the-scheduler"))
        received = Bench(app=app).receive()
        assert task_ids(received) == ["by-the-project", "by-the-scheduler"]
        assert {type(message.channel).__module__ for message in received} == {Channel.__module__}

    @pytest.mark.timeout(120)
    def test_publishers_that_start_at_once_lose_nothing(self, options: dict[str, str]) -> None:
        """Three processes bind and publish on empty directories while kombu's own reader consumes."""
        command = [sys.executable, "-c", PUBLISH_FROM_ANOTHER_PROCESS]
        publishers = [
            subprocess.Popen(
                [*command, name, "1000", json.dumps(options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for name in "abc"
        ]
        try:
            received = defaultdict(list)
            wanted = Queue("wanted", Exchange("topics", type="topic"), routing_key="a.b")
            with Connection("filesystem://", transport_options={**options, "polling_interval": 0.01}) as connection:
                for process in publishers:
                    assert process.stdout is not None
                    assert process.stdout.readline() == "ready\n"
                for process in publishers:
                    assert process.stdin is not None
                    process.stdin.write("\n")
                    process.stdin.flush()

                def take(body: Any, message: Any) -> None:
                    name, number = message.headers["id"].split("-")
                    received[name].append(int(number))
                    message.ack()

                with connection.Consumer([wanted], callbacks=[take]):
                    while sum(map(len, received.values())) < 3000:
                        connection.drain_events(timeout=30)
            assert dict(received) == {name: list(range(1000)) for name in "abc"}
            assert [process.wait(timeout=30) for process in publishers] == [0, 0, 0]
        finally:
            for process in publishers:
                process.kill()
                process.communicate()
