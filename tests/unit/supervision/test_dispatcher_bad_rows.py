"""A job that cannot be sent or planned harms only itself (I8)."""

from __future__ import annotations

from unittest.mock import DEFAULT, Mock

import pytest

from django_leased_cron.core.events import BatchDispatched, JobFlagged
from django_leased_cron.core.message import build_publication
from django_leased_cron.core.occurrence import OccurrenceState, SkipReason
from django_leased_cron.exceptions import DatabaseUnavailableError
from tests.unit.core.job_rows import daily_at, message
from tests.unit.supervision.process import HOURLY, TIMING, Process

FAILED, SENT = OccurrenceState.FAILED, OccurrenceState.SENT
NO_SUCH_ZONE = daily_at(5, crontab_timezone="Mars/Olympus")


def test_malformed_message_fails_its_occurrence_and_flags_its_job(process: Process) -> None:
    """The others of the batch are sent; the job is un-planned until somebody edits it."""
    process.plan(1)
    process.plan(2, args="{}")
    process.plan(3)
    dispatcher = process.settle()
    assert process.sent() == [1, 3]
    assert process.outbox.states() == [SENT, FAILED, SENT]
    assert process.outbox.occurrences[2].reason.startswith("args")
    [flagged] = process.events.of(JobFlagged)
    assert (flagged.job_id, flagged.error) == (2, process.outbox.occurrences[2].reason)
    [write] = process.outbox.written
    assert (write.inputs, write.next_due_at_ms, write.replaced_because) == (HOURLY, None, SkipReason.MALFORMED)
    assert write.message_digest == message().digest
    [dispatched] = process.events.of(BatchDispatched)
    assert (dispatched.sent, dispatched.failed, dispatched.unsent) == (2, 1, 0)
    process.clock.advance(3600)
    process.run(dispatcher)
    assert process.sent() == [1, 3, 1, 3]


def test_row_that_nobody_has_thought_of_is_malformed_like_any_other(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of ours while decoding it: the others are sent."""
    process.plan(1, 2, 3)
    stumbling = Mock(wraps=build_publication, side_effect=[DEFAULT, ZeroDivisionError, DEFAULT])
    monkeypatch.setattr("django_leased_cron.supervision.batch.build_publication", stumbling)
    process.settle()
    assert process.sent() == [1, 3]
    assert process.outbox.states() == [SENT, FAILED, SENT]
    [flagged] = process.events.of(JobFlagged)
    assert flagged.job_id == 2
    assert "ZeroDivisionError" in flagged.error


def test_malformed_message_that_was_adopted_fails_and_its_job_is_flagged(process: Process) -> None:
    """Its plan is another slot's, and as malformed."""
    process.plan(1, due_in_s=3600, kwargs="[]")
    process.take_over()
    process.outbox.add(1, due_at_ms=process.now_ms)
    process.run(process.begin_term(), seconds=TIMING.publish_timeout_s)
    assert process.outbox.states() == [FAILED]
    assert [write.job_id for write in process.outbox.written] == [1]


def test_job_that_cannot_be_planned_any_more_is_flagged_and_the_others_fire(process: Process) -> None:
    """It was planned once, on a machine that knew its zone."""
    process.plan(1, inputs=NO_SUCH_ZONE, due_in_s=-1)
    process.plan(2)
    process.settle()
    assert process.sent() == [2]
    assert [(flagged.job_id, "Mars" in flagged.error) for flagged in process.events.of(JobFlagged)] == [(1, True)]
    assert 1 not in process.outbox.plans


def test_job_is_flagged_once_however_often_its_claim_has_to_be_tried(process: Process) -> None:
    """The database refuses the first claims of a term; the same row is met each time."""
    process.plan(1, inputs=NO_SUCH_ZONE)
    dispatcher = process.begin_term()
    for _ in range(20):
        process.outbox.acts.lose_request("claim", DatabaseUnavailableError("default", "lock timeout"))
        try:
            process.step(dispatcher)
        except DatabaseUnavailableError:
            process.clock.advance(0.2)
    process.run(dispatcher, seconds=1)
    assert len(process.events.of(JobFlagged)) == 1
    assert len(process.outbox.written) == 1
