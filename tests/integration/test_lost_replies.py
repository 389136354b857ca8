"""The dispatcher on real databases when an answer does not come (A2, A4, I4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, cast

import pytest

from django_leased_cron.core.adoption import EpochSightings
from django_leased_cron.core.database_clock import DatabaseClockEstimate
from django_leased_cron.core.events import Event
from django_leased_cron.core.outbox import Outbox, TermLost
from django_leased_cron.core.publication import Accepted, Unknown
from django_leased_cron.core.timing import LeaseTiming
from django_leased_cron.exceptions import CommitOutcomeUnknownError, DatabaseUnavailableError, StoreError
from django_leased_cron.models import Occurrence
from django_leased_cron.supervision.confirmer import Confirmer
from django_leased_cron.supervision.dispatch_context import DispatchContext
from django_leased_cron.supervision.dispatcher import TermDispatcher
from django_leased_cron.supervision.outage import OutageWatch
from django_leased_cron.testing import FakeClock, RecordingPublisher
from tests.integration.scheduling_bench import NOW_MS, SchedulingBench

DUE_MS = NOW_MS + 60_000
UNKNOWN = CommitOutcomeUnknownError("a", "the reply was lost")
NEVER_SENT = DatabaseUnavailableError("a", "the request was lost")


class FaultyOutbox:
    """The real outbox, of which single calls lose their request or their reply."""

    def __init__(self, bench: SchedulingBench) -> None:
        self.now_ms = NOW_MS
        self._bench = bench
        self._lost_requests: dict[str, StoreError] = {}
        self._lost_replies: dict[str, StoreError] = {}

    def lose_request(self, call: str, error: StoreError) -> None:
        self._lost_requests[call] = error

    def lose_reply(self, call: str, error: StoreError) -> None:
        self._lost_replies[call] = error

    def __getattr__(self, call: str) -> Callable[..., Any]:
        real = getattr(self._bench.outbox(self.now_ms), call)

        def pass_on(*args: Any, **kwargs: Any) -> Any:
            if call in self._lost_requests:
                raise self._lost_requests.pop(call)
            reply = real(*args, **kwargs)
            if call in self._lost_replies:
                raise self._lost_replies.pop(call)
            return reply

        return pass_on


class DispatcherBench:
    """A term's dispatcher on a real outbox; database and boot clock move together, by hand."""

    def __init__(self, bench: SchedulingBench) -> None:
        self.bench = bench
        self.clock = FakeClock()
        self.outbox = FaultyOutbox(bench)
        self.publisher = RecordingPublisher(self.clock)
        self.events: list[Event] = []
        outbox = cast(Outbox, self.outbox)  # passes every call on
        outage = OutageWatch(alias=bench.alias, doing="recording runs", emit=self.events.append)
        context = DispatchContext(
            outbox=outbox,
            confirmer=Confirmer(outbox, clock=self.clock, outage=outage),
            sightings=EpochSightings(publish_timeout_s=5),
            estimate=DatabaseClockEstimate(),
            rules=bench.rules,
            timing=LeaseTiming(
                lease_ttl_s=30, heartbeat_s=10, poll_interval_s=0.5, rescue_after_s=1, publish_timeout_s=5
            ),
            batch_size=500,
            history_retention_s=86_400,
            clock=self.clock,
            emit=self.events.append,
        )
        self.dispatcher = TermDispatcher(context, term=bench.term(), proved=lambda epoch, at: None, turned=lambda: None)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.outbox.now_ms += round(seconds * 1000)

    def step_until_idle(self) -> None:
        """Step as the pool would: again at once while there is something to do, and after an error."""
        for _ in range(20):
            try:
                again_at = self.dispatcher.step(self.publisher)
            except StoreError:
                continue
            assert not isinstance(again_at, TermLost)
            if again_at > self.clock.boot_time():
                return
        raise AssertionError("never idle")

    def step_until_failure(self) -> NoReturn:
        while True:
            self.dispatcher.step(self.publisher)

    def step_once_published(self) -> list[str]:
        """Step until one batch was handed to the broker; return its task ids."""
        while not self.publisher.batches:
            self.dispatcher.step(self.publisher)
        return [publication.task_id for publication in self.publisher.batches[0]]

    @property
    def published(self) -> list[tuple[str, int]]:
        return [(publication.task_id, publication.attempt) for publication in self.publisher.accepted]


@pytest.fixture
def running(bench: SchedulingBench) -> DispatcherBench:
    """Yield a dispatcher that has planned three jobs, all due in 60 s, and waits."""
    for _ in range(3):
        bench.every(60)
    running = DispatcherBench(bench)
    running.step_until_idle()
    assert {bench.state(job).next_due_at_ms for job in bench.jobs()} == {DUE_MS}
    return running


def test_claim_whose_reply_was_lost_is_published_at_once_and_only_once(running: DispatcherBench) -> None:
    """The commit happened, its reply did not come: read back under the lock and published as attempt 2."""
    running.advance(60)
    running.outbox.lose_reply("claim", UNKNOWN)
    running.step_until_idle()
    assert len({task_id for task_id, _ in running.published}) == 3
    assert [attempt for _, attempt in running.published] == [2, 2, 2]
    assert {state for state, _, _ in running.bench.states()} == {"sent"}


def test_claim_that_never_arrived_is_made_again(running: DispatcherBench) -> None:
    """Nothing was claimed; the slots go out on the next try as attempt 1."""
    running.advance(60)
    running.outbox.lose_request("claim", UNKNOWN)
    running.step_until_idle()
    assert [attempt for _, attempt in running.published] == [1, 1, 1]
    assert {state for state, _, _ in running.bench.states()} == {"sent"}


@pytest.mark.parametrize("fault", ["lose_request", "lose_reply"])
def test_accepted_message_is_confirmed_again_and_never_published_again(running: DispatcherBench, fault: str) -> None:
    """Whether or not the lost confirm was carried out (A2)."""
    running.advance(60)
    getattr(running.outbox, fault)("confirm", NEVER_SENT)
    running.step_until_idle()
    assert [attempt for _, attempt in running.published] == [1, 1, 1]
    assert {state for state, _, _ in running.bench.states()} == {"sent"}


def test_message_that_may_have_arrived_is_published_again_under_the_same_id(running: DispatcherBench) -> None:
    """The connection broke under the second: it and the rest become attempt 2, the first is left alone."""
    running.advance(60)
    running.publisher.answer(Accepted, Unknown)
    running.step_until_idle()
    running.advance(0.2)
    running.step_until_idle()
    assert [attempt for _, attempt in running.published] == [1, 2, 2]
    assert len({task_id for task_id, _ in running.published}) == 3
    assert [attempt for _, _, attempt in running.bench.states()].count(2) == 2


def test_nothing_fresh_is_claimed_while_the_broker_is_away(running: DispatcherBench) -> None:
    """What was in hand stays in the outbox; the slots of the outage are left to catch-up."""
    running.advance(60)
    running.publisher.is_down = True
    running.step_until_idle()
    for _ in range(120):
        running.advance(1)
        running.step_until_idle()
    assert len(running.bench.states()) == 3
    running.publisher.is_down = False
    running.advance(1)
    running.step_until_idle()
    assert {state for state, _, _ in running.bench.states()} <= {"sent", "skipped"}
    assert len(running.published) == len({task_id for task_id, _ in running.published})


def test_lost_reply_to_the_runs_is_not_made_up(running: DispatcherBench) -> None:
    """A count may be one short; it is never one too many."""
    running.advance(60)
    running.outbox.lose_reply("record_runs", UNKNOWN)
    running.step_until_idle()
    running.advance(2)
    running.step_until_idle()
    assert {job.total_run_count for job in running.bench.jobs()} == {1}


def test_locked_occurrence_holds_up_nothing_but_itself(running: DispatcherBench) -> None:
    """A worker's or an admin's open transaction on one row of the outbox: the tenant goes on."""
    bench = running.bench
    if bench.alias == "sqlite":
        return  # one writer: everybody waits until it ends
    running.advance(60)
    running.outbox.lose_request("confirm", NEVER_SENT)
    with pytest.raises(StoreError):
        running.step_until_failure()
    held = bench.occurrences()[0]
    with bench.locked_rows(Occurrence.objects.using(bench.alias).filter(pk=held.pk)):
        bench.in_thread(running.step_until_idle).result()
        states = bench.in_thread(lambda: [row.state for row in bench.occurrences()]).result()
        assert states == ["claimed", "sent", "sent"]
        running.advance(60)
        bench.in_thread(running.step_until_idle).result()
        assert len(running.published) == 6
    running.advance(1)
    running.step_until_idle()
    assert {state for state, _, _ in bench.states()} == {"sent"}
    assert [attempt for _, attempt in running.published] == [1] * 6


def test_locked_adoption_holds_up_nothing_but_itself(running: DispatcherBench) -> None:
    """What could not be published and is locked now is adopted when the lock is gone; fresh work goes out meanwhile."""
    bench = running.bench
    if bench.alias == "sqlite":
        return  # one writer: everybody waits until it ends
    running.advance(60)
    running.publisher.answer(Unknown)
    order_of_tasks = running.step_once_published()
    held = next(row for row in bench.occurrences() if row.task_id == order_of_tasks[0])
    with bench.locked_rows(Occurrence.objects.using(bench.alias).filter(pk=held.pk)):
        running.advance(0.2)
        bench.in_thread(running.step_until_idle).result()
        running.advance(60)
        bench.in_thread(running.step_until_idle).result()
        assert len({task_id for task_id, _ in running.published}) == 5
    running.advance(1)
    running.step_until_idle()
    assert {state for state, _, _ in bench.states()} == {"sent"}
    assert len({task_id for task_id, _ in running.published}) == 6
