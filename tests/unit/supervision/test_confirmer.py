"""What was published is recorded, however long that takes and whoever holds the lease by then (P2)."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from django_leased_cron.core.events import DatabaseOutage, DatabaseRecovered
from django_leased_cron.core.occurrence import OccurrenceState
from django_leased_cron.core.outbox import JobRun, Outcome, Settlement, TermKey, UnconfirmedClaim
from django_leased_cron.exceptions import CommitOutcomeUnknownError, DatabaseUnavailableError
from tests.unit.supervision.process import TENANT, Process

OLD_TERM = TermKey(tenant_key=TENANT, holder_id="me", epoch=1)
NEW_TERM = TermKey(tenant_key=TENANT, holder_id="me", epoch=2)
AWAY = DatabaseUnavailableError("default", "connection refused")
UNKNOWN = CommitOutcomeUnknownError("default", "the reply to COMMIT never came")


def sent(occurrence_id: int, *, epoch: int = 1) -> Settlement:
    claim = UnconfirmedClaim(occurrence_id=occurrence_id, epoch=epoch, attempt=1)
    return Settlement(claim=claim, outcome=Outcome.SENT, at_ms=5)


def run(job_id: int, *, at_ms: int = 5, runs: int = 1, finished: bool = False) -> JobRun:
    return JobRun(job_id=job_id, runs=runs, last_run_at_ms=at_ms, finished=finished)


def add(process: Process, *settlements: Settlement, runs: tuple[JobRun, ...] = (), term: TermKey = OLD_TERM) -> None:
    process.context.confirmer.add(term, settlements, runs)


def flush(process: Process) -> None:
    process.context.confirmer.flush(predecessors_adoptable_in_ms=None)


def claim(process: Process, *epochs: int) -> None:
    for index, epoch in enumerate(epochs):
        process.outbox.add(index, due_at_ms=5, epoch=epoch)


@pytest.mark.parametrize("error", [AWAY, UNKNOWN])
def test_settlement_stays_until_a_confirm_was_committed(process: Process, error: DatabaseUnavailableError) -> None:
    """Each failure is told, each flush tries again."""
    claim(process, 1)
    add(process, sent(1))
    for _ in range(3):
        process.outbox.acts.lose_request("confirm", error)
        with pytest.raises(DatabaseUnavailableError):
            flush(process)
        assert not process.context.confirmer.is_empty
    flush(process)
    assert process.context.confirmer.is_empty
    assert process.outbox.states() == [OccurrenceState.SENT]
    flush(process)
    assert process.count("confirm") == 4


def test_settlements_outlive_their_term(process: Process) -> None:
    """Each is confirmed in the name of the term that published it."""
    claim(process, 1, 2)
    add(process, sent(1))
    process.take_over()
    process.take_over()
    add(process, sent(2, epoch=2), term=NEW_TERM)
    flush(process)
    assert process.outbox.states() == [OccurrenceState.SENT] * 2
    assert process.count("confirm") == 2


def test_long_list_is_confirmed_in_parts_and_goes_on_where_it_failed(process: Process) -> None:
    """What was committed is not sent again."""
    claim(process, *[1] * 1200)
    add(process, *[sent(occurrence_id) for occurrence_id in range(1, 1201)])
    process.outbox.acts.lose_request("confirm", AWAY)
    with pytest.raises(DatabaseUnavailableError):
        flush(process)
    flush(process)
    assert set(process.outbox.states()) == {OccurrenceState.SENT}
    assert process.count("confirm") == 1 + 3


def test_runs_are_never_sent_again_after_a_commit_of_unknown_outcome(process: Process) -> None:
    """They are increments: one too few is better than one too many."""
    add(process, runs=(run(7),))
    process.outbox.acts.lose_reply("record_runs", UNKNOWN)
    flush(process)
    process.clock.advance(60)
    flush(process)
    assert process.outbox.runs == [run(7)]


def test_runs_wait_for_a_database_that_did_not_take_them(process: Process) -> None:
    """Told once, and a confirm is not held up by them."""
    add(process, runs=(run(7),))
    for _ in range(5):
        process.outbox.acts.lose_request("record_runs", AWAY)
        flush(process)
        process.clock.advance(1)
    flush(process)
    assert process.outbox.runs == [run(7)]
    assert len(process.events.of(DatabaseOutage)) == 1
    assert len(process.events.of(DatabaseRecovered)) == 1


def test_run_of_a_job_that_an_editor_holds_is_made_up_later(process: Process) -> None:
    """The others are recorded at once; the locked row is asked for once a second, not at every confirm."""
    process.outbox.locked_jobs.add(7)
    add(process, runs=(run(7), run(8)))
    for _ in range(10):
        flush(process)
    assert process.outbox.runs == [run(8)]
    assert process.count("record_runs") == 1
    process.outbox.locked_jobs.clear()
    process.clock.advance(1)
    flush(process)
    assert process.outbox.runs == [run(8), run(7)]


def test_runs_that_an_editor_holds_up_do_not_hold_up_the_end(process: Process) -> None:
    """Outcomes count; a counter of django-celery-beat does not."""
    process.outbox.locked_jobs.add(7)
    add(process, runs=(run(7),))
    flush(process)
    assert process.context.confirmer.is_empty


def test_runs_held_up_for_long_are_told_as_one(process: Process) -> None:
    """An editor who leaves a transaction open for an hour must not cost a statement for each second of it."""
    process.outbox.locked_jobs.add(7)
    for second in reversed(range(20)):
        add(process, runs=(run(7, at_ms=second * 1000, finished=second == 3),))
        flush(process)
        process.clock.advance(1)
    before = process.count("record_runs")
    process.outbox.locked_jobs.clear()
    flush(process)
    assert process.outbox.runs == [run(7, at_ms=19_000, runs=20, finished=True)]
    assert process.count("record_runs") == before + 1


def test_what_is_added_while_another_thread_flushes_is_recorded_once(process: Process) -> None:
    """A batch is published while the one before it is confirmed: neither an outcome nor a run is lost or doubled."""
    outbox, count = process.outbox, 5_000
    for number in range(count):
        outbox.add(number, due_at_ms=5)
    done = threading.Event()

    def flush_until_done() -> None:
        while not done.is_set():
            flush(process)
        flush(process)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(1) as pool:
            flushing = pool.submit(flush_until_done)
            for number in range(count):
                add(process, sent(number + 1), runs=(run(number % 7),))
            done.set()
            flushing.result()
    finally:
        sys.setswitchinterval(interval)
    assert set(outbox.states()) == {OccurrenceState.SENT}
    assert sum(each.runs for each in outbox.runs) == count
