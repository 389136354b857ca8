"""The last step before a message leaves the process."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from django_leased_cron.core.clock import BootTime, Clock


class Stage(Enum):
    """How far the write of one message has come."""

    NOT_BEGUN = auto()
    TOO_LATE = auto()
    BEGUN = auto()
    DONE = auto()


class TooLateError(Exception):
    """The time in which the message might be published has passed."""


class WriteGate:
    """Stands in for a channel's ``basic_publish``, behind serialisation, routing, signals and declarations.

    So the deadline is compared right before the write (rule P1), and an error is known to have come before, during or
    after it.

    Attributes:
        stage: of the message since the last :meth:`arm`.
        done_at: when its write was done, as far as this broker can say.
    """

    def __init__(self, channel: Any, clock: Clock) -> None:
        self.channel = channel
        self._clock = clock
        self._publish = channel.basic_publish
        channel.basic_publish = self._pass
        self.arm(clock.boot_time())

    def arm(self, deadline: BootTime) -> None:
        """Expect one message, whose write may begin until the deadline."""
        self._deadline = deadline
        self.stage = Stage.NOT_BEGUN
        self.done_at = deadline

    def _pass(self, message: Any, *args: Any, **kwargs: Any) -> Any:
        if self.stage is Stage.DONE:  # what follows the message is Celery's "task-sent" event
            return self._publish(message, *args, **kwargs)
        if self._clock.boot_time() > self._deadline:
            self.stage = Stage.TOO_LATE
            raise TooLateError
        self.stage = Stage.BEGUN
        reply = self._publish(message, *args, **kwargs)
        self.stage = Stage.DONE
        self.done_at = self._clock.boot_time()
        return reply
