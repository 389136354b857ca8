"""What is handed to the broker, and what is known about it afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from django_leased_cron.core.clock import BootTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """One attempt to publish one occurrence: everything the broker adapter needs, decoded and checked.

    ``headers`` are the job's own; the adapter adds nothing to them, :func:`build_headers` of the dispatch has done so.
    """

    occurrence_id: int
    attempt: int
    task: str
    task_id: str
    args: Sequence[Any] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, Any] = field(default_factory=dict)
    queue: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    priority: int | None = None
    expires_s: float | None = None
    """Seconds after publication at which a worker must no longer start it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The broker has it (as surely as this broker can say)."""

    publication: Publication
    at: BootTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """This message can never be published: it failed to serialise or route, or the broker refused it for good."""

    publication: Publication
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStarted:
    """Nothing was written: the deadline for starting had passed, or there was no connection to write to."""

    publication: Publication
    reason: str
    too_late: bool = False
    """The deadline alone was the reason: nothing is known to be wrong with the broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The connection failed or timed out under it: it may have arrived, arrive later, or never."""

    publication: Publication
    reason: str


PublishResult = Accepted | Refused | NotStarted | Unknown


class Publisher(Protocol):
    """One connection to one broker, used by one thread at a time; never raises for a broker or a message at fault."""

    def publish(self, publications: Sequence[Publication], *, start_deadline: BootTime) -> Iterable[PublishResult]:
        """Publish each, in order, and say for each what is known.

        Rule P1: right before each write, with the channel open, boot time is compared with ``start_deadline``; from
        then on the rest is ``NotStarted``. After a connection error the rest of the batch is ``NotStarted`` too.
        No retries of the client library's own.
        """
        ...

    def is_answering(self) -> bool:
        """Return whether the broker answers now, by a round trip that is bounded in time."""
        ...

    def close(self) -> None:
        """Give up the connection; never raises."""
        ...
