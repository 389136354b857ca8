"""Publishing through Celery, one message at a time, exactly as beat does.

A registered task is sent with its own ``apply_async``, so that its routing, serializer, priority and overrides count;
any other by name. Celery's publish signals are sent as for every task. What differs from beat:

- the connection is the publisher's own and every wait on it is bounded (rule P1);
- nothing is tried again here: whoever claimed the occurrence decides that;
- the result backend is not told in advance (beat's process would subscribe to results that nobody there reads).

Where the message or the broker is at fault is decided by how far the write had come, see :class:`WriteGate`: an error
of one message is ``Refused`` and the batch goes on; any other is the connection's and ends the batch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from celery import Celery
from celery.exceptions import QueueNotFound
from celery.result import denied_join_result
from kombu.exceptions import KombuError, OperationalError, SerializationError

from django_leased_cron.core.clock import BootTime, Clock
from django_leased_cron.core.publication import Accepted, NotStarted, Publication, PublishResult, Refused, Unknown
from django_leased_cron.exceptions import ConfigurationError
from django_leased_cron.publishing.broker import Broker
from django_leased_cron.publishing.line import BrokerLine
from django_leased_cron.publishing.routes import NoRouteError
from django_leased_cron.publishing.write_gate import Stage, TooLateError, WriteGate

_PROBE_BOUND_S = 1.0
_LONGEST_REASON = 200
_TOO_LATE = "the time in which it might be published had passed"
_ENCODING_ERRORS = (SerializationError, TypeError, ValueError, ArithmeticError, struct.error)
"""What client libraries raise for a message that they cannot put into bytes."""
_SPEAKING_ERRORS = (KombuError, NoRouteError, QueueNotFound, TypeError, ArithmeticError, struct.error)
"""Errors whose text names fields and types, not the values of task arguments."""


class CeleryPublisher:
    """A :class:`~django_leased_cron.core.publication.Publisher` over one broker of one Celery app.

    ``is_answering`` has a line of its own: it may be called while another thread publishes.

    Args:
        app: finalized, with its task modules imported.
        clock: whose boot time the deadlines are.
        publish_timeout_s: ``PUBLISH_TIMEOUT``; a publication that has begun ends within less than half of it.
        broker: what differs between brokers.

    Raises:
        ConfigurationError: ``task_always_eager`` is on: Celery would run every task inside the scheduler, and no
            deadline would hold.
    """

    def __init__(self, app: Celery, clock: Clock, *, publish_timeout_s: float, broker: Broker) -> None:
        if app.conf.task_always_eager:
            problem = (
                "Celery's task_always_eager is on: tasks would run inside the scheduler instead of being sent. "
                "Turn it off where the scheduler runs."
            )
            raise ConfigurationError([problem])
        self._app = app
        self._clock = clock
        self._broker = broker
        bound_s = publish_timeout_s / 2
        self._line = BrokerLine(app, broker, bound_s=bound_s)
        self._probe = BrokerLine(app, broker, bound_s=min(bound_s, _PROBE_BOUND_S))
        self._gate: WriteGate | None = None
        self._producer: Any = None

    def publish(self, publications: Sequence[Publication], *, start_deadline: BootTime) -> list[PublishResult]:
        """Publish each, in order, and say for each what is known; never raises."""
        results: list[PublishResult] = []
        gate: WriteGate | None = None
        for publication in publications:
            if self._clock.boot_time() > start_deadline:
                return _end(results, publications, _TOO_LATE, too_late=True)
            if gate is None or gate.channel is not self._line.channel:
                try:
                    gate = self._open_gate()
                except Exception as exc:  # noqa: BLE001 - nothing was written, and that is all that counts
                    return _end(results, publications, f"no connection to the broker: {self._describe(exc)}")
            gate.arm(start_deadline)
            result = self._publish_one(publication, gate)
            results.append(result)
            if isinstance(result, NotStarted | Unknown):
                too_late = isinstance(result, NotStarted) and result.too_late
                return _end(results, publications, f"not begun, after: {result.reason}", too_late=too_late)
        return results

    def is_answering(self) -> bool:
        """Return whether the broker answers now, within about a second; never raises."""
        try:
            self._probe.open()
        except Exception:  # noqa: BLE001 - the client libraries have no common root
            return False
        return True

    def close(self) -> None:
        self._line.close()
        self._probe.close()

    def _open_gate(self) -> WriteGate:
        channel = self._line.open()
        if self._gate is None or self._gate.channel is not channel:
            self._gate = WriteGate(channel, self._clock)
            self._producer = self._app.amqp.Producer(channel, auto_declare=False)
        return self._gate

    def _publish_one(self, publication: Publication, gate: WriteGate) -> PublishResult:
        error: Exception | None = None
        try:
            self._send(publication)
        except TooLateError:
            pass  # the gate knows
        except Exception as exc:  # noqa: BLE001 - a task's own apply_async, a router and a serializer run here
            error = exc
        match gate.stage:
            case Stage.TOO_LATE:
                return NotStarted(publication=publication, reason=_TOO_LATE, too_late=True)
            case Stage.DONE:
                if error is not None:  # of what followed the message
                    self._line.drop()
                return Accepted(publication=publication, at=gate.done_at)
            case stage if error is not None:
                return self._judge(publication, error, begun=stage is Stage.BEGUN)
            case Stage.NOT_BEGUN:
                # The task's own apply_async has dealt with it in another way.
                return Accepted(publication=publication, at=self._clock.boot_time())
            case Stage.BEGUN:
                self._line.drop()
                return Unknown(publication=publication, reason="the task's own apply_async kept an error to itself")

    def _send(self, publication: Publication) -> None:
        options: dict[str, Any] = {
            "queue": publication.queue,
            "exchange": publication.exchange,
            "routing_key": publication.routing_key,
            "priority": publication.priority,
            "expires": publication.expires_s,
        }
        options = {name: value for name, value in options.items() if value is not None}
        options |= {
            "task_id": publication.task_id,
            "headers": dict(publication.headers),
            "producer": self._producer,
            "retry": False,
        }
        args: Any = list(publication.args)
        kwargs = dict(publication.kwargs)
        task = self._app.tasks.get(publication.task)
        with denied_join_result():  # keeps the result backend from subscribing to the result
            if task is not None:
                task.apply_async(args, kwargs, **options)
            else:
                self._app.send_task(publication.task, args, kwargs, **options)

    def _judge(self, publication: Publication, exc: Exception, *, begun: bool) -> PublishResult:
        """Say whose fault an error was, and leave the line as the next message needs it."""
        error = exc.__cause__ if isinstance(exc, OperationalError) and exc.__cause__ is not None else exc
        reason = self._describe(error)
        if self._broker.is_refusal(error):
            self._line.renew_channel()
            return Refused(publication=publication, reason=reason)
        may_be_the_message = not isinstance(error, self._line.failures())
        if begun:
            may_be_the_message = may_be_the_message and isinstance(error, _ENCODING_ERRORS)
        # Client libraries also stumble over a lost connection with errors of that look; a channel that still answers
        # tells the two apart.
        if may_be_the_message and self._line.is_answering():
            return Refused(publication=publication, reason=reason)
        self._line.drop()
        outcome = Unknown if begun else NotStarted
        return outcome(publication=publication, reason=reason)

    def _describe(self, error: BaseException) -> str:
        """Return a short reason without task arguments: the text of an error only where it is known to have none."""
        speaks = isinstance(error, (*_SPEAKING_ERRORS, *self._line.failures())) or self._broker.is_refusal(error)
        text = " ".join(str(error).split()) if speaks else ""
        return f"{type(error).__name__}: {text}"[:_LONGEST_REASON] if text else type(error).__name__


def _end(
    results: list[PublishResult], publications: Sequence[Publication], reason: str, *, too_late: bool = False
) -> list[PublishResult]:
    """Return the results, completed by those that were not begun."""
    rest = publications[len(results) :]
    return [
        *results,
        *(NotStarted(publication=publication, reason=reason, too_late=too_late) for publication in rest),
    ]
