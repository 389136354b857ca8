"""The contract of the publishers over every broker adapter, and what each broker adds to it."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from celery.signals import before_task_publish
from kombu import Connection, Exchange, Queue

from django_leased_cron.core.clock import SystemClock
from django_leased_cron.core.publication import Accepted, NotStarted, Refused, Unknown
from django_leased_cron.exceptions import ConfigurationError
from django_leased_cron.publishing import build_publisher
from tests.contract.publisher_bench import PUBLISH_TIMEOUT_S, Bench, build_app, kinds, publication
from tests.contract.tcp_proxy import TcpProxy
from tests.servers import SERVERS

pytest.register_assert_rewrite("tests.contract.publisher_contract", "tests.contract.publisher_outage_contract")

# pytest shows the values in its assertions only if it is imported after that.
from tests.contract.publisher_contract import Connect, PublisherContract  # noqa: E402
from tests.contract.publisher_outage_contract import NetworkContract  # noqa: E402


def administer_rabbitmq(*arguments: str) -> None:
    """Run ``rabbitmqctl``, or skip the test where it does not reach the server."""
    try:
        subprocess.run(["rabbitmqctl", "-q", *arguments], check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.CalledProcessError) as exc:
        pytest.skip(f"rabbitmqctl cannot be used here: {exc}")


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

    def test_a_server_that_falls_silent_within_a_frame(self, bench: Bench, proxy: TcpProxy, calls: Connect) -> None:
        """The client library alone would wait for the rest of it without end."""
        header_and_one = 8
        bench.publish(publication())  # declares the queue

        def silence(**_: Any) -> None:
            proxy.mute(after_bytes=header_and_one)

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


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("foo://bar", "(No such transport: foo)"),
        ("rediss2://bar", "Did you mean rediss?"),
        ("no.such://:secret@bar", ""),
        ("redis://:secret/more@bar/0", ""),
    ],
)
def test_unknown_transport_is_a_configuration_error(url: str, said: str) -> None:
    """One sentence that says what would be right, and no password."""
    with pytest.raises(ConfigurationError) as raised:
        build_publisher(build_app(url), SystemClock(), PUBLISH_TIMEOUT_S)
    [problem] = raised.value.problems
    assert "broker_url names no broker that Celery knows" in problem
    assert "Write for example 'redis://" in problem
    assert said in problem
    assert "secret" not in problem


def test_eager_mode_is_a_configuration_error() -> None:
    """Tasks would run inside the scheduler, where no deadline holds."""
    app = build_app("memory://", task_always_eager=True)
    with pytest.raises(ConfigurationError, match="task_always_eager"):
        build_publisher(app, SystemClock(), PUBLISH_TIMEOUT_S)
