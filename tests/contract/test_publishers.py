"""One suite over every broker adapter: what is published, what is refused, and what is known when the broker fails."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from celery import Celery
from celery.beat import ScheduleEntry, Scheduler
from celery.schedules import schedule
from celery.signals import after_task_publish, before_task_publish
from kombu import Connection, Exchange, Queue

from django_leased_cron.core.clock import BootTime, SystemClock, later
from django_leased_cron.core.publication import (
    Accepted,
    NotStarted,
    Publication,
    Publisher,
    PublishResult,
    Refused,
    Unknown,
)
from django_leased_cron.exceptions import ConfigurationError
from django_leased_cron.publishing import build_publisher
from django_leased_cron.publishing.filesystem import Channel
from tests.contract.tcp_proxy import TcpProxy
from tests.servers import SERVERS

PUBLISH_TIMEOUT_S = 5.0
SECRET = "open-sesame"


class ManualClock:
    def __init__(self) -> None:
        self.now = BootTime(1000.0)

    def boot_time(self) -> BootTime:
        return self.now


@dataclass(slots=True, kw_only=True)
class Bench:
    """A Celery app on a queue of its own, and a publisher for it."""

    app: Celery
    clock: ManualClock = field(default_factory=ManualClock)
    publisher: Publisher = field(init=False)

    def __post_init__(self) -> None:
        self.publisher = build_publisher(self.app, self.clock, PUBLISH_TIMEOUT_S)

    @property
    def queue(self) -> str:
        return str(self.app.conf.task_default_queue)

    def publish(self, *publications: Publication) -> list[PublishResult]:
        return list(self.publisher.publish(publications, start_deadline=later(self.clock.now, PUBLISH_TIMEOUT_S / 2)))

    def receive(self, queue: str | None = None) -> list[Any]:
        """Take all messages that are there."""
        with self.app.connection_for_read() as connection:
            bound = Queue(queue or self.queue)(connection.default_channel)
            try:
                return list(iter(lambda: bound.get(no_ack=True), None))
            except connection.channel_errors:  # nobody has declared it yet
                return []


class WayOut:
    """How a test takes a broker away and gives it back."""

    def __init__(self, remove: Callable[[], None], restore: Callable[[], None]) -> None:
        self.remove = remove
        self.restore = restore


def build_app(broker_url: str, **settings: Any) -> Celery:
    app = Celery(f"bench-{uuid4().hex}", broker=broker_url, set_as_current=False)
    app.conf.update(task_default_queue=f"leased-cron-test-{uuid4().hex}", **settings)

    @app.task(name="add", shared=False)
    def add(x: int, y: int) -> int:
        return x + y

    @app.task(name="quiet", shared=False, ignore_result=True)
    def quiet() -> None: ...

    return app


def do_nothing(*_: Any) -> None: ...


def publication(task: str = "add", **changes: Any) -> Publication:
    values: dict[str, Any] = {"occurrence_id": 1, "attempt": 1, "task_id": str(uuid4()), "args": [1, 2]}
    return Publication(**{**values, "task": task, **changes})


def kinds(results: list[PublishResult]) -> list[type[PublishResult]]:
    return [type(result) for result in results]


def task_ids(messages: list[Any]) -> list[str]:
    return [message.headers["id"] for message in messages]


@pytest.fixture
def calls() -> Iterator[Callable[[Any, Callable[..., None]], None]]:
    """Connect handlers to Celery's signals for the length of a test."""
    connected: list[tuple[Any, Callable[..., None]]] = []

    def connect(signal: Any, handler: Callable[..., None]) -> None:
        signal.connect(handler, weak=False)
        connected.append((signal, handler))

    yield connect
    for signal, handler in connected:
        signal.disconnect(handler)


def administer_rabbitmq(*arguments: str) -> None:
    """Run ``rabbitmqctl``, or skip the test where it does not reach the server."""
    try:
        subprocess.run(["rabbitmqctl", "-q", *arguments], check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.CalledProcessError) as exc:
        pytest.skip(f"rabbitmqctl cannot be used here: {exc}")


class PublisherContract:
    """What holds for every broker; subclasses provide ``bench``."""

    def test_a_message_is_the_one_that_beat_would_send(self, bench: Bench) -> None:
        """Body, headers and properties are equal to those of Celery's own scheduler."""
        headers = {"periodic_task_name": "job", "celery_beat_task": True, "leased_cron": {"job_id": 7, "attempt": 1}}
        scheduler = Scheduler(bench.app, lazy=True)
        cases: list[tuple[str, Any]] = [("add", [1, 2]), ("quiet", []), ("somewhere.else", [3])]
        for task, arguments in cases:
            options = {"headers": dict(headers), "task_id": str(uuid4()), "priority": 4}
            entry = ScheduleEntry("job", task, schedule=schedule(86400), kwargs={}, options=options, app=bench.app)
            entry.args = arguments  # a list, as django-celery-beat reads it
            scheduler.apply_async(entry, advance=False)
            results = bench.publish(
                publication(task, task_id=options["task_id"], args=arguments, headers=headers, priority=4)
            )

            assert kinds(results) == [Accepted]
            beats, ours = bench.receive()
            assert ours.payload == beats.payload
            assert ours.headers == beats.headers
            for name in ("correlation_id", "priority", "delivery_mode", "content_type", "expiration", "reply_to"):
                assert ours.properties.get(name) == beats.properties.get(name)

    def test_a_message_goes_where_the_job_says(self, bench: Bench) -> None:
        """A queue of the job's own, and the time after which no worker may start it."""
        elsewhere = f"{bench.queue}-elsewhere"
        assert kinds(bench.publish(publication(queue=elsewhere, expires_s=60.0))) == [Accepted]

        assert bench.receive() == []
        (message,) = bench.receive(elsewhere)
        assert message.headers["expires"] is not None

    def test_messages_keep_their_order(self, bench: Bench) -> None:
        """They are received as they were handed over."""
        publications = [publication() for _ in range(20)]
        assert kinds(bench.publish(*publications)) == [Accepted] * 20
        assert task_ids(bench.receive()) == [each.task_id for each in publications]

    def test_celerys_publish_signals_are_sent(
        self, bench: Bench, calls: Callable[[Any, Callable[..., None]], None]
    ) -> None:
        """Who listens to them hears of scheduled tasks as of any other."""
        heard: list[str] = []
        calls(before_task_publish, lambda headers, **_: heard.append(f"before {headers['id']}"))
        calls(after_task_publish, lambda headers, **_: heard.append(f"after {headers['id']}"))
        bench.publish(publication(task_id="an-id"))
        assert heard == ["before an-id", "after an-id"]

    def test_a_message_at_fault_is_refused_and_the_rest_goes_on(self, bench: Bench) -> None:
        """Wrong arguments, what cannot be serialised, and an exchange that does not exist harm only themselves."""
        good = [publication() for _ in range(4)]
        results = bench.publish(
            good[0],
            publication(args=[1]),
            good[1],
            publication(args=[1, object()]),
            good[2],
            publication(exchange=f"{bench.queue}-nowhere", routing_key="any"),
            good[3],
        )
        assert kinds(results) == [Accepted, Refused, Accepted, Refused, Accepted, Refused, Accepted]
        assert task_ids(bench.receive()) == [each.task_id for each in good]

    def test_a_reason_is_short_and_holds_no_argument(self, bench: Bench) -> None:
        """It ends up in a table that more people read than the job's arguments."""

        class Unserialisable:
            def __repr__(self) -> str:
                return SECRET

        results = bench.publish(publication(args=[SECRET] * 3), publication(args=[Unserialisable(), SECRET]))
        assert kinds(results) == [Refused, Refused]
        for result in results:
            assert isinstance(result, Refused)
            assert 0 < len(result.reason) <= 200
            assert SECRET not in result.reason

    def test_nothing_is_published_after_the_deadline(self, bench: Bench) -> None:
        """A batch that comes too late is not begun."""
        results = list(
            bench.publisher.publish([publication(), publication()], start_deadline=later(bench.clock.now, -0.001))
        )
        assert kinds(results) == [NotStarted, NotStarted]
        assert bench.receive() == []

    def test_the_deadline_is_compared_right_before_the_write(
        self, bench: Bench, calls: Callable[[Any, Callable[..., None]], None]
    ) -> None:
        """What a slow signal handler delays beyond it is not written, nor is the rest of the batch."""
        publications = [publication(), publication(), publication()]

        def delay(headers: dict[str, Any], **_: Any) -> None:
            if headers["id"] == publications[1].task_id:
                bench.clock.now = later(bench.clock.now, PUBLISH_TIMEOUT_S)

        calls(before_task_publish, delay)
        assert kinds(bench.publish(*publications)) == [Accepted, NotStarted, NotStarted]
        assert task_ids(bench.receive()) == [publications[0].task_id]

    def test_whatever_a_task_does_in_its_apply_async_does_not_get_out(self, bench: Bench) -> None:
        """An override that raises harms its own message; one that sends nothing has dealt with it."""

        class Raising(bench.app.Task):  # type: ignore[name-defined,misc]
            def apply_async(self, *args: Any, **kwargs: Any) -> Any:
                raise RuntimeError(SECRET)

        class Silent(bench.app.Task):  # type: ignore[name-defined,misc]
            def apply_async(self, *args: Any, **kwargs: Any) -> Any:
                return None

        for name, base in (("raising", Raising), ("silent", Silent)):
            bench.app.task(name=name, base=base, typing=False, shared=False)(do_nothing)
        good = publication()
        results = bench.publish(publication("raising"), publication("silent"), good)
        assert kinds(results) == [Refused, Accepted, Accepted]
        assert isinstance(results[0], Refused)
        assert results[0].reason == "RuntimeError"
        assert task_ids(bench.receive()) == [good.task_id]

    def test_an_error_that_a_task_keeps_to_itself_leaves_its_message_unknown(self, bench: Bench) -> None:
        """A write that had begun and of whose end nobody tells may have arrived."""

        class Swallowing(bench.app.Task):  # type: ignore[name-defined,misc]
            def apply_async(self, *args: Any, **kwargs: Any) -> Any:
                with contextlib.suppress(Exception):
                    kwargs["producer"].channel.basic_publish(None)  # begins the write, and fails

        bench.app.task(name="swallowing", base=Swallowing, typing=False, shared=False)(do_nothing)
        assert kinds(bench.publish(publication("swallowing"), publication())) == [Unknown, NotStarted]
        assert kinds(bench.publish(publication())) == [Accepted]

    def test_the_broker_answers(self, bench: Bench) -> None:
        """On a first question and on the next."""
        assert [bench.publisher.is_answering(), bench.publisher.is_answering()] == [True, True]

    def test_a_closed_publisher_can_be_used_again(self, bench: Bench) -> None:
        """Closing gives up the connection, no more; and closing twice does no harm."""
        bench.publish(publication())
        bench.publisher.close()
        bench.publisher.close()
        assert kinds(bench.publish(publication())) == [Accepted]


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
        self, bench: Bench, proxy: TcpProxy, calls: Callable[[Any, Callable[..., None]], None]
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
        self, bench: Bench, proxy: TcpProxy, calls: Callable[[Any, Callable[..., None]], None]
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


class TestRedis(NetworkContract):
    @pytest.fixture
    def proxy(self, redis_url: str) -> Iterator[TcpProxy]:
        with TcpProxy(SERVERS["redis"].address) as proxy:
            yield proxy

    @pytest.fixture
    def client(self, redis_url: str) -> Iterator[Any]:
        with import_module("redis").Redis.from_url(redis_url) as client:
            yield client

    @pytest.fixture
    def bench(self, proxy: TcpProxy, client: Any) -> Iterator[Bench]:
        prefix = f"leased-cron-test-{uuid4().hex}:"
        bench = Bench(
            app=build_app(f"redis://127.0.0.1:{proxy.port}/0", broker_transport_options={"global_keyprefix": prefix})
        )
        yield bench
        bench.publisher.close()
        keys = list(client.scan_iter(f"{prefix}*"))
        if keys:
            client.delete(*keys)

    def test_a_key_of_another_kind_is_a_refusal(self, bench: Bench, client: Any) -> None:
        """A queue whose name is taken takes no message, however often it is tried."""
        prefix = bench.app.conf.broker_transport_options["global_keyprefix"]
        client.set(f"{prefix}{bench.queue}-taken", "not a list")
        results = bench.publish(publication(queue=f"{bench.queue}-taken"), publication())
        assert kinds(results) == [Refused, Accepted]

    @pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server to start")
    def test_a_server_that_takes_no_writes_does_not_answer(self, redis_url: str, tmp_path: Path) -> None:
        """It says PONG, and no scheduler would get a message through: none has reason to take over."""
        socket_path = tmp_path / "redis"
        command = [
            "redis-server",
            "--port",
            "0",
            "--unixsocket",
            str(socket_path),
            "--save",
            "",
            "--dir",
            str(tmp_path),
        ]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            assert any("accept connections" in line for line in server.stdout)
            bench = Bench(app=build_app(f"redis+socket://{socket_path}"))
            assert bench.publisher.is_answering() is True
            with import_module("redis").Redis(unix_socket_path=str(socket_path)) as client:
                client.config_set("maxmemory", "1")
                assert client.ping()
                assert bench.publisher.is_answering() is False
                assert kinds(bench.publish(publication(), publication())) == [NotStarted, NotStarted]
                client.config_set("maxmemory", "0")
            assert bench.publisher.is_answering() is True
            assert kinds(bench.publish(publication())) == [Accepted]
            bench.publisher.close()
        finally:
            server.kill()
            server.communicate()

    def test_a_user_who_may_not_probe_gets_an_answer(self, redis_url: str, proxy: TcpProxy, client: Any) -> None:
        """The commands that Celery itself needs suffice."""
        user = f"leased-cron-test-{uuid4().hex}"
        client.acl_setuser(user, enabled=True, passwords=["+word"], keys=["*"], categories=["+@all"])
        try:
            client.execute_command("ACL", "SETUSER", user, "-lpushx")
            app = build_app(f"redis://{user}:word@127.0.0.1:{proxy.port}/0")
            publisher = build_publisher(app, SystemClock(), PUBLISH_TIMEOUT_S)
            assert publisher.is_answering() is True
            publisher.close()
        finally:
            client.acl_deluser(user)


class TestRabbitMQ(NetworkContract):
    @pytest.fixture
    def proxy(self, rabbitmq_url: str) -> Iterator[TcpProxy]:
        with TcpProxy(SERVERS["rabbitmq"].address) as proxy:
            yield proxy

    @pytest.fixture
    def bench(self, proxy: TcpProxy, rabbitmq_url: str) -> Iterator[Bench]:
        host, port = SERVERS["rabbitmq"].address
        bench = Bench(app=build_app(rabbitmq_url.replace(f"{host}:{port}", f"127.0.0.1:{proxy.port}")))
        yield bench
        bench.publisher.close()
        with Connection(rabbitmq_url) as connection:
            channel: Any = connection.default_channel
            for suffix in ("", "-elsewhere", "-limited", "-other"):
                channel.queue_delete(f"{bench.queue}{suffix}")
                channel.exchange_delete(f"{bench.queue}{suffix}")

    def test_a_server_that_falls_silent_within_a_frame(
        self, bench: Bench, proxy: TcpProxy, calls: Callable[[Any, Callable[..., None]], None]
    ) -> None:
        """The client library alone would wait for the rest of it without end."""
        header_and_one = 8
        bench.publish(publication())  # declares the queue

        def silence(**_: Any) -> None:
            proxy.silence(after_bytes=header_and_one)

        calls(before_task_publish, silence)
        began = time.monotonic()
        assert kinds(bench.publish(publication())) == [Unknown]
        assert time.monotonic() - began < PUBLISH_TIMEOUT_S / 2

    def test_a_queue_declared_otherwise_is_a_refusal(self, bench: Bench, rabbitmq_url: str) -> None:
        """Its channel is closed by the broker; the next message has another."""
        with Connection(rabbitmq_url) as connection:
            Queue(f"{bench.queue}-other", max_priority=3)(connection.default_channel).declare()
        results = bench.publish(publication(), publication(queue=f"{bench.queue}-other"), publication())
        assert kinds(results) == [Accepted, Refused, Accepted]
        assert len(bench.receive()) == 2

    def test_a_queue_that_is_full_refuses(self, bench: Bench, rabbitmq_url: str) -> None:
        """A negative acknowledgement is an answer, and the batch goes on."""
        name = f"{bench.queue}-limited"
        limits = {"x-max-length": 1, "x-overflow": "reject-publish"}
        with Connection(rabbitmq_url) as connection:
            Queue(name, Exchange(name), routing_key="k", queue_arguments=limits)(connection.default_channel).declare()
        limited = [publication(exchange=name, routing_key="k") for _ in range(2)]
        assert kinds(bench.publish(*limited, publication())) == [Accepted, Refused, Accepted]

    def test_what_cannot_be_put_into_a_frame_is_refused(self, bench: Bench) -> None:
        """An integer header beyond 64 bits, a name beyond 255 characters, a priority beyond a byte."""
        results = bench.publish(
            publication(headers={"n": 2**80}),
            publication(headers={"k" * 300: 1}),
            publication(priority=1000),
            publication(),
        )
        assert kinds(results) == [Refused, Refused, Refused, Accepted]

    def test_a_user_who_may_not_publish_everywhere_gets_an_answer(self, proxy: TcpProxy) -> None:
        """The probe leads through the default exchange, which a project need not be allowed to use."""
        user = f"leased-cron-test-{uuid4().hex}"
        administer_rabbitmq("add_user", user, "word")
        try:
            administer_rabbitmq("set_permissions", user, ".*", "allowed", ".*")
            app = build_app(f"amqp://{user}:word@127.0.0.1:{proxy.port}//")
            publisher = build_publisher(app, SystemClock(), PUBLISH_TIMEOUT_S)
            assert [publisher.is_answering(), publisher.is_answering()] == [True, True]
            publisher.close()
        finally:
            administer_rabbitmq("delete_user", user)


class TestMemory(PublisherContract):
    @pytest.fixture
    def bench(self) -> Iterator[Bench]:
        bench = Bench(app=build_app("memory://"))
        yield bench
        bench.publisher.close()


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


def test_eager_mode_is_a_configuration_error() -> None:
    """Tasks would run inside the scheduler, where no deadline holds."""
    app = build_app("memory://", task_always_eager=True)
    with pytest.raises(ConfigurationError, match="task_always_eager"):
        build_publisher(app, SystemClock(), PUBLISH_TIMEOUT_S)
