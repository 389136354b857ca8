"""Keeping the plan in step with the rows that people edit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import pytest

from django_leased_cron.core.events import EditsFoundSlowly, JobFlagged
from django_leased_cron.core.occurrence import SkipReason
from django_leased_cron.core.outbox import ChangedJob, ChangeKind, JobRun, NotedChanges, TermKey, TermLost
from django_leased_cron.core.planning import Planning, flag_planned
from django_leased_cron.exceptions import DatabaseUnavailableError, MalformedJobError
from django_leased_cron.supervision.planner import Planner
from tests.unit.core.job_rows import daily_at
from tests.unit.supervision.process import HOURLY, TENANT, TIMING, Process

POLL_S = TIMING.poll_interval_s
MANY_JOBS = 20_000


def start(process: Process, *, first_term: bool = False, planning: Planning | None = None) -> Planner:
    term = TermKey(tenant_key=TENANT, holder_id=process.holder_id, epoch=process.take_over())
    return Planner(
        process.outbox,
        term=term,
        planning=planning or Planning(storage_zone=UTC, goes_on_from_last_run=first_term),
        poll_interval_s=POLL_S,
        clock=process.clock,
        emit=process.events.append,
    )


def run(planner: Planner, process: Process) -> list[JobRun]:
    result = planner.run(now_ms=process.now_ms, predecessors_adoptable_in_ms=None)
    assert not isinstance(result, TermLost)
    return list(result)


def changed(job_id: int = 7, kind: ChangeKind = ChangeKind.NEW, inputs: str = HOURLY, **columns: Any) -> ChangedJob:
    values: dict[str, Any] = {"next_due_at_ms": None, "planned_inputs": "", "last_run_at": None}
    return ChangedJob(job_id=job_id, kind=kind, inputs=inputs, **values | columns)


def find_error(inputs: str) -> str:
    """Return what a job is marked with that cannot be planned."""
    planning = Planning(storage_zone=UTC, goes_on_from_last_run=False)
    return planning.plan(changed(inputs=inputs), now_ms=0).error


def wait_s(planner: Planner, process: Process) -> float:
    """Return how long the planner means to rest."""
    return planner.due_at - process.clock.boot_time()


def test_changed_jobs_are_planned_in_one_write(process: Process) -> None:
    """And nothing is written where nothing has changed."""
    planner = start(process)
    process.outbox.changes = [changed(7), changed(8)]
    assert run(planner, process) == []
    assert sorted(process.outbox.plans) == [7, 8]
    assert process.outbox.plans[7].next_due_at_ms == process.now_ms + 3_600_000
    assert process.count("write_plans") == 1
    process.clock.advance(wait_s(planner, process))
    run(planner, process)
    assert process.count("write_plans") == 1


def test_one_off_that_is_still_switched_on_is_told_to_be_finished(process: Process) -> None:
    """Its holder died between the firing and the bookkeeping; no run is counted twice, and no plan is made."""
    process.outbox.changes = [changed(7, ChangeKind.FINISHED), changed(8)]
    runs = run(start(process), process)
    assert runs == [JobRun(job_id=7, runs=0, last_run_at_ms=process.now_ms, finished=True)]
    assert [*process.outbox.plans] == [8]


def test_malformed_job_is_flagged_and_the_others_are_planned(process: Process) -> None:
    """Told with the reason that a person finds in admin."""
    process.outbox.changes = [changed(7, inputs=daily_at(25)), changed(8)]
    run(start(process), process)
    [flagged] = process.events.of(JobFlagged)
    assert flagged.job_id == 7
    assert flagged.error.startswith("crontab_hour")
    assert [*process.outbox.plans] == [8]


def test_long_pass_goes_on_where_it_stopped(process: Process) -> None:
    """A part at a time, one after the other, with claims in between."""
    planner = start(process)
    process.outbox.changes = [changed(job_id) for job_id in range(1, 1101)]
    for planned in (500, 1000):
        run(planner, process)
        assert len(process.outbox.plans) == planned
        assert planner.is_due(process.clock.boot_time())
        assert not planner.is_overdue(process.clock.boot_time())
    run(planner, process)
    assert len(process.outbox.plans) == 1100
    assert wait_s(planner, process) == POLL_S


@pytest.mark.parametrize(("took_s", "rest_s"), [(0.0, POLL_S), (0.02, POLL_S), (1.0, 20.0)])
def test_pass_takes_no_more_than_its_share_of_a_core(process: Process, took_s: float, rest_s: float) -> None:
    """5 %: over many jobs it is repeated less often."""
    planner = start(process)
    process.outbox.job_count = MANY_JOBS + 1
    process.outbox.acts.seconds["find_changes"] = took_s
    run(planner, process)
    assert wait_s(planner, process) == pytest.approx(rest_s)


@pytest.mark.parametrize(("took_s", "rest_s"), [(0.02, POLL_S), (0.2, POLL_S + 0.4), (1.0, POLL_S)])
def test_edit_of_one_of_few_jobs_is_noticed_in_time_whatever_a_pass_takes(
    process: Process, took_s: float, rest_s: float
) -> None:
    """Up to 20,000 the promise counts more than the share: passes and the rest between are a poll and a second."""
    planner = start(process)
    process.outbox.job_count = MANY_JOBS
    process.outbox.acts.seconds["find_changes"] = took_s
    run(planner, process)
    assert wait_s(planner, process) == pytest.approx(rest_s)
    assert process.events.of(EditsFoundSlowly) == []


def test_pauses_that_delay_edits_are_told_once_a_term(process: Process) -> None:
    """With the measured one; not where triggers note the edits anyway."""
    planner = start(process)
    process.outbox.job_count = MANY_JOBS + 1
    process.outbox.acts.seconds["find_changes"] = 0.5
    for _ in range(2):
        run(planner, process)
        process.clock.advance(wait_s(planner, process))
    [told] = process.events.of(EditsFoundSlowly)
    assert told.pause_s == pytest.approx(10)
    run(noting(process), process)
    assert process.events.of(EditsFoundSlowly) == [told]


def test_what_planning_takes_makes_no_pause(process: Process) -> None:
    """The first pass ever plans all jobs; the next one only looks at them."""
    planner = start(process)
    process.outbox.acts.seconds["write_plans"] = 30.0
    process.outbox.changes = [changed()]
    run(planner, process)
    assert wait_s(planner, process) == POLL_S


def test_all_parts_of_a_pass_count_as_one(process: Process) -> None:
    """Three parts of a second each: a minute of rest."""
    planner = start(process)
    process.outbox.job_count = MANY_JOBS + 1
    process.outbox.acts.seconds["find_changes"] = 1.0
    process.outbox.changes = [changed(job_id) for job_id in range(1, 1101)]
    for _ in range(3):
        run(planner, process)
    assert wait_s(planner, process) == pytest.approx(60)


def test_planner_is_overdue_after_a_poll_interval(process: Process) -> None:
    """From then on it goes before due work."""
    planner = start(process)
    process.clock.advance(POLL_S - 0.25)
    assert not planner.is_overdue(process.clock.boot_time())
    process.clock.advance(0.25)
    assert planner.is_overdue(process.clock.boot_time())


def test_hurry_begins_a_pass_from_the_first_job(process: Process) -> None:
    """The job that a claim met may come before where the pass has got to."""
    planner = start(process)
    process.outbox.changes = [changed(job_id) for job_id in range(100, 700)]
    run(planner, process)
    process.outbox.changes.insert(0, changed(7))
    planner.hurry()
    assert planner.is_overdue(process.clock.boot_time())
    run(planner, process)
    assert 7 in process.outbox.plans


def test_due_work_goes_first_again_after_a_pass_that_failed(process: Process) -> None:
    """It must not keep anything from being sent, however often it fails."""
    planner = start(process)
    planner.hurry()
    process.outbox.acts.lose_request("find_changes", DatabaseUnavailableError("default", "statement timeout"))
    with pytest.raises(DatabaseUnavailableError):
        run(planner, process)
    assert not planner.is_due(process.clock.boot_time())
    assert wait_s(planner, process) == POLL_S


def test_flag_is_written_first_and_kept_until_it_is(process: Process) -> None:
    """Until then the job is due and nobody can claim it."""
    planner = start(process)
    error = MalformedJobError("crontab_timezone", "Mars/Olympus", "no such time zone on this machine")
    planner.flag(flag_planned(job_id=7, inputs=HOURLY, next_due_at_ms=5, error=error, message_digest="d41d"))
    process.outbox.acts.lose_request("write_plans", DatabaseUnavailableError("default", "lock timeout"))
    with pytest.raises(DatabaseUnavailableError):
        run(planner, process)
    assert process.events == []
    run(planner, process)
    [write] = process.outbox.written
    assert (write.replaced_inputs, write.replaced_due_at_ms, write.message_digest) == (HOURLY, 5, "d41d")
    assert (write.replaced_because, write.error) == (SkipReason.MALFORMED, str(error))
    run(planner, process)
    assert len(process.outbox.written) == 1


def test_flagged_jobs_are_examined_again_once_a_term(process: Process) -> None:
    """What a machine lacked may be there now: planned from now, or left marked without a word."""
    planner = start(process)
    still_bad = changed(8, ChangeKind.FLAGGED, daily_at(25), error=find_error(daily_at(25)))
    process.outbox.changes = [changed(7, ChangeKind.FLAGGED, error="no such time zone on this machine"), still_bad]
    run(planner, process)
    assert process.outbox.plans[7].next_due_at_ms == process.now_ms + 3_600_000
    assert [write.job_id for write in process.outbox.written] == [7]
    assert process.events == []
    process.outbox.changes = [changed(9, ChangeKind.FLAGGED, error="as before")]
    process.clock.advance(wait_s(planner, process))
    run(planner, process)
    assert 9 not in process.outbox.plans
    run(start(process), process)
    assert 9 in process.outbox.plans


def test_job_with_another_error_than_before_is_told(process: Process) -> None:
    """The machine was put right, and only then shows what else is wrong."""
    process.outbox.changes = [changed(7, ChangeKind.FLAGGED, daily_at(25), error="no such time zone on this machine")]
    run(start(process), process)
    [flagged] = process.events.of(JobFlagged)
    assert flagged.error == find_error(daily_at(25))


def test_many_flagged_jobs_are_examined_a_part_at_a_time(process: Process) -> None:
    """With claims in between, as for any long pass."""
    planner = start(process)
    process.outbox.changes = [changed(number, ChangeKind.FLAGGED, error="x") for number in range(1, 1101)]
    for planned in (500, 1000, 1100):
        assert planner.is_due(process.clock.boot_time())
        run(planner, process)
        assert len(process.outbox.plans) == planned


def test_term_that_is_over_writes_no_plan(process: Process) -> None:
    """A frozen holder's plan, made from rows of long ago, replaces nothing."""
    planner = start(process)
    process.outbox.changes = [changed(7, inputs=daily_at(25))]
    process.lose_lease()
    assert isinstance(planner.run(now_ms=process.now_ms, predecessors_adoptable_in_ms=None), TermLost)
    assert process.outbox.written == []
    assert process.events == []


def test_only_the_first_pass_of_the_first_term_goes_on_from_last_runs(process: Process) -> None:
    """A job switched on weeks later, in the same term, begins with its next regular slot."""
    planner = start(process, first_term=True)
    last_run_at = str(datetime.fromtimestamp(process.now_ms / 1000 - 90_000, UTC))
    process.outbox.changes = [changed(7, last_run_at=last_run_at)]
    run(planner, process)
    assert process.outbox.plans[7].next_due_at_ms == process.now_ms - 90_000_000 + 3_600_000
    process.outbox.changes = [changed(8, last_run_at=last_run_at)]
    process.clock.advance(wait_s(planner, process))
    run(planner, process)
    assert process.outbox.plans[8].next_due_at_ms == process.now_ms + 3_600_000


def noting(process: Process) -> Planner:
    """Return a planner that has found triggers and made its first pass."""
    process.outbox.notes_edits = True
    planner = start(process)
    run(planner, process)
    return planner


def test_where_edits_are_noted_a_look_is_enough(process: Process) -> None:
    """At every poll it reads notes; all jobs are passed over only once a minute."""
    planner = noting(process)
    for _ in range(20):
        process.clock.advance(wait_s(planner, process))
        run(planner, process)
    assert (process.count("find_changes"), process.count("find_noted_changes")) == (1, 20)
    process.clock.advance(60)
    run(planner, process)
    assert process.count("find_changes") == 2


def test_noted_edit_is_planned_and_its_note_forgotten(process: Process) -> None:
    """Forgotten only after the plan was written: a process that dies in between leaves the note to the next."""
    planner = noting(process)
    process.outbox.changes, process.outbox.noted_jobs = [changed(7), changed(8)], {7}
    process.clock.advance(wait_s(planner, process))
    run(planner, process)
    assert [write.job_id for write in process.outbox.written] == [7]
    assert process.outbox.noted_jobs == set()
    assert process.outbox.acts.done[-2:] == ["write_plans", "forget_notes"]


def test_announced_edit_is_looked_for_at_once(process: Process) -> None:
    """Not at the next poll."""
    planner = noting(process)
    assert wait_s(planner, process) > 0
    planner.look_soon()
    assert planner.is_due(process.clock.boot_time())
    run(planner, process)
    assert wait_s(planner, process) == pytest.approx(POLL_S)


def test_edit_that_touches_too_many_jobs_to_list_begins_a_pass(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table was emptied: all jobs are passed over at once."""
    planner = noting(process)
    everything = NotedChanges(note_ids=[1], changes=[], everything=True)
    monkeypatch.setattr(process.outbox, "find_noted_changes", Mock(return_value=everything))
    process.clock.advance(wait_s(planner, process))
    run(planner, process)
    assert planner.is_due(process.clock.boot_time())
    run(planner, process)
    assert process.count("find_changes") == 2


def test_triggers_that_were_lost_are_noticed_by_the_next_look(process: Process) -> None:
    """From then on all jobs are passed over at every poll again."""
    planner = noting(process)
    process.outbox.notes_edits = False
    for passes in (2, 3):
        process.clock.advance(wait_s(planner, process))
        run(planner, process)
        assert process.count("find_changes") == passes
        assert wait_s(planner, process) == pytest.approx(POLL_S)


def test_pass_for_lost_triggers_that_failed_is_due_at_the_next_poll(process: Process) -> None:
    """Not at the next rare one."""
    planner = noting(process)
    process.outbox.notes_edits = False
    process.clock.advance(wait_s(planner, process))
    process.outbox.acts.lose_request("find_changes", DatabaseUnavailableError("default", "statement timeout"))
    with pytest.raises(DatabaseUnavailableError):
        run(planner, process)
    assert wait_s(planner, process) == pytest.approx(POLL_S)


def test_new_job_begins_when_it_was_saved_but_not_before_the_last_look(process: Process) -> None:
    """Seen by the first look of a term, it may have waited for a holder; later, it was not there before."""
    planning = Planning(storage_zone=UTC, goes_on_from_last_run=False, seen_within_ms=30_000)
    planner = start(process, planning=planning)
    saved_at = datetime.fromtimestamp(process.now_ms / 1000 - 20, UTC).replace(tzinfo=None).isoformat(" ")
    process.outbox.changes = [changed(7, date_changed=saved_at)]
    run(planner, process)
    assert process.outbox.plans[7].next_due_at_ms == process.now_ms - 20_000 + 3_600_000
    looked_at_ms = process.now_ms
    process.clock.advance(wait_s(planner, process))
    process.outbox.changes = [changed(8, date_changed=saved_at)]
    run(planner, process)
    assert process.outbox.plans[8].next_due_at_ms == looked_at_ms + 3_600_000
