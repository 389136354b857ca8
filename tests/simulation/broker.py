"""A broker in simulated time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from django_leased_cron.core.clock import BootTime
from django_leased_cron.core.publication import Accepted, Publication, PublishResult
from tests.simulation.simulated_time import SimulatedTime
from tests.simulation.timeline import Died, Happening, Message


class ProcessDied(BaseException):
    """The process is gone: nothing of it runs after this, as after SIGKILL."""


class SimulatedBroker:
    """Accepts everything and keeps what it has; or ends the process that publishes.

    Attributes:
        accepted: what it has, in order.
        dies_after: how many publications of the next batch are accepted before their process ends; ``None``: it lives.
        seconds_each: how far the clock moves with each publication. At 0 no rate can be measured: batches stay small.
    """

    def __init__(self, time: SimulatedTime, timeline: list[Happening], *, seconds_each: float = 0.0) -> None:
        self.accepted: list[Message] = []
        self.dies_after: int | None = None
        self._time = time
        self._timeline = timeline
        self._seconds_each = seconds_each

    def publish(self, publications: Sequence[Publication], *, start_deadline: BootTime) -> Iterator[PublishResult]:
        for number, publication in enumerate(publications):
            if number == self.dies_after:
                self._end_process(publications, accepted=number)
            self._time.advance(self._seconds_each)
            assert self._time.boot_time() <= start_deadline
            self.accepted.append(_read(publication))
            yield Accepted(publication=publication, at=self._time.boot_time())
        if self.dies_after is not None:
            self._end_process(publications, accepted=len(publications))

    def is_answering(self) -> bool:
        return True

    def close(self) -> None:
        pass

    def _end_process(self, publications: Sequence[Publication], *, accepted: int) -> None:
        self.dies_after = None
        self._timeline.append(Died(accepted=[_read(publication) for publication in publications[:accepted]]))
        raise ProcessDied


def _read(publication: Publication) -> Message:
    header = publication.headers["leased_cron"]
    due_at = datetime.fromisoformat(header["due_at"])
    return Message(
        occurrence_id=publication.occurrence_id,
        job_id=header["job_id"],
        due_at_ms=round(due_at.timestamp() * 1000),
        attempt=publication.attempt,
        task_id=publication.task_id,
    )
