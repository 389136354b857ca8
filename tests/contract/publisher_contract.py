"""What holds for every broker adapter: what is published, what is refused, and what is known when the broker fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from celery.beat import ScheduleEntry, Scheduler
from celery.schedules import schedule
from celery.signals import after_task_publish, before_task_publish

from django_leased_cron.core.clock import later
from django_leased_cron.core.publication import Accepted, NotStarted, Refused, Unknown
from tests.contract.publisher_bench import PUBLISH_TIMEOUT_S, Bench, do_nothing, kinds, publication, task_ids

Connect = Callable[[Any, Callable[..., None]], None]

SECRET = "open-sesame"


class PublisherContract:
    """What holds for every broker; subclasses provide ``bench``."""

    @pytest.fixture
    def calls(self) -> Iterator[Connect]:
        """Connect handlers to Celery's signals for the length of a test."""
        connected: list[tuple[Any, Callable[..., None]]] = []

        def connect(signal: Any, handler: Callable[..., None]) -> None:
            signal.connect(handler, weak=False)
            connected.append((signal, handler))

        yield connect
        for signal, handler in connected:
            signal.disconnect(handler)

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

    def test_celerys_publish_signals_are_sent(self, bench: Bench, calls: Connect) -> None:
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

    def test_the_deadline_is_compared_right_before_the_write(self, bench: Bench, calls: Connect) -> None:
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
