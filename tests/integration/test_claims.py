"""The claim on real databases: what it takes, what it leaves, and what a concurrent edit does to it."""

from __future__ import annotations

import pytest
from django_celery_beat.models import CrontabSchedule, PeriodicTask

from django_leased_cron.core.occurrence import build_task_id
from django_leased_cron.core.outbox import ClaimOrder, TermLost
from django_leased_cron.models import JobPolicy, JobState, Occurrence, TenantPolicy
from tests.integration.scheduling_bench import NOW_MS, TENANT, TTL_MS, SchedulingBench

DUE_MS = NOW_MS + 60_000


def test_due_job_is_claimed_once_and_its_plan_moves_on(bench: SchedulingBench) -> None:
    """One transaction inserts the occurrence and advances the job; the next finds nothing due."""
    job = bench.every(60, args="[1]", queue="slow", priority=3)
    bench.plan()
    (claimed,) = bench.claim(DUE_MS).claimed
    assert (claimed.job_id, claimed.due_at_ms, claimed.claim.attempt) == (job.pk, DUE_MS, 1)
    assert claimed.task_id == build_task_id(tenant_key=TENANT, job_id=job.pk, due_at_ms=DUE_MS)
    assert claimed.message is not None
    assert (claimed.message.name, claimed.message.args, claimed.message.queue) == (job.name, "[1]", "slow")
    assert claimed.message.priority == 3
    assert bench.state(job).next_due_at_ms == DUE_MS + 60_000
    in_hand = {(claimed.claim.occurrence_id, claimed.claim.attempt)}
    assert bench.claim(DUE_MS, in_hand=in_hand).claimed == []
    assert bench.states() == [("claimed", "", 1)]


def test_claim_before_the_due_time_takes_nothing(bench: SchedulingBench) -> None:
    """The database's clock decides, whatever the process that asks believes."""
    bench.every(60)
    bench.plan()
    order = bench.order(DUE_MS)
    reply = bench.outbox(DUE_MS - 1).claim(order)
    assert not isinstance(reply, TermLost)
    assert reply.claimed == []
    assert bench.occurrences() == []


def test_stale_term_claims_nothing(bench: SchedulingBench) -> None:
    """After a takeover the old holder's guard matches no row (I2), and nothing of the transaction stands."""
    job = bench.every(60)
    bench.plan()
    order = bench.order(DUE_MS)
    bench.hold_lease(epoch=2, holder_id="other")
    assert isinstance(bench.outbox(DUE_MS).claim(order), TermLost)
    assert bench.occurrences() == []
    assert bench.state(job).next_due_at_ms == DUE_MS
    assert bench.lease.expires_at_ms == NOW_MS + TTL_MS


def test_claim_renews_and_says_what_is_owed(bench: SchedulingBench) -> None:
    """A claim moves expiry and progress; owed since is its own unconfirmed claim, then the next firing."""
    bench.every(60)
    bench.plan()
    reply = bench.claim(DUE_MS)
    lease = bench.lease
    assert (lease.expires_at_ms, lease.progressed_at_ms) == (DUE_MS + TTL_MS, DUE_MS)
    assert lease.owed_since_ms == DUE_MS
    bench.confirm(reply.claimed, now_ms=DUE_MS + 10)
    assert bench.lease.owed_since_ms == DUE_MS + 60_000


def test_predecessors_claim_is_owed_from_when_it_may_be_adopted(bench: SchedulingBench) -> None:
    """A dead holder's batch is nobody's emergency while nobody may touch it."""
    bench.every(60)
    bench.plan()
    bench.claim(DUE_MS)
    bench.hold_lease(epoch=2)
    bench.outbox(DUE_MS + 2000).claim(ClaimOrder(term=bench.term(2), predecessors_adoptable_in_ms=5000))
    assert bench.lease.owed_since_ms == DUE_MS + 7000


def test_job_disabled_while_the_claim_waits_for_the_lease_does_not_fire(bench: SchedulingBench) -> None:
    """An edit committed before the lock is granted counts, though the statement began before it (I5)."""
    job = bench.every(60)
    bench.plan()
    order = bench.order(DUE_MS)
    with bench.locked_lease():
        call = bench.in_thread(lambda: bench.outbox(DUE_MS).claim(order))
        assert call.is_waiting
        bench.edit(job, enabled=False)
    assert call.result().claimed == []
    assert bench.states() == [("skipped", "disabled", 0)]
    assert bench.state(job).next_due_at_ms is None


def test_arguments_edited_while_the_claim_waits_are_the_ones_sent(bench: SchedulingBench) -> None:
    """The definition is read after the commit: never older than the lock."""
    job = bench.every(60, args="[1]")
    bench.plan()
    order = bench.order(DUE_MS)
    with bench.locked_lease():
        call = bench.in_thread(lambda: bench.outbox(DUE_MS).claim(order))
        assert call.is_waiting
        bench.edit(job, args="[2]")
    (claimed,) = call.result().claimed
    assert claimed.message.args == "[2]"


def test_job_rescheduled_before_the_claim_is_left_to_the_planner(bench: SchedulingBench) -> None:
    """13:30 moved to 14:30 does not fire at 13:30, and the planner records the slot that was replaced."""
    job = bench.crontab("30")
    bench.plan()
    due_ms = NOW_MS + 30 * 60_000
    order = bench.order(due_ms)
    CrontabSchedule.objects.using(bench.alias).update(minute="45")
    reply = bench.outbox(due_ms).claim(order)
    assert not isinstance(reply, TermLost)
    assert (list(reply.claimed), list(reply.left_to_planner)) == ([], [job.pk])
    bench.plan(due_ms + 100)
    assert bench.state(job).next_due_at_ms == NOW_MS + 45 * 60_000
    assert bench.states() == [("skipped", "rescheduled", 0)]


def test_deleted_job_does_not_fire_and_its_state_is_swept(bench: SchedulingBench) -> None:
    """A raw DELETE leaves a plan behind; the due slot is accounted for, then the plan goes."""
    job = bench.every(60)
    bench.plan()
    PeriodicTask.objects.using(bench.alias).filter(pk=job.pk)._raw_delete(bench.alias)
    assert bench.claim(DUE_MS).claimed == []
    bench.plan(DUE_MS + 1)
    assert bench.states() == [("skipped", "deleted", 0)]
    assert not JobState.objects.using(bench.alias).exists()
    assert bench.plan(DUE_MS + 2) == []


@pytest.mark.parametrize("by", ["tenant", "job"])
def test_paused_occurrences_are_recorded_and_time_moves_on(bench: SchedulingBench, by: str) -> None:
    """While paused, due slots are skipped with the reason; resuming fires nothing of the past."""
    job = bench.every(60)
    bench.plan()
    if by == "tenant":
        TenantPolicy.objects.using(bench.alias).create(tenant_key=TENANT, paused=True)
    else:
        JobPolicy.objects.using(bench.alias).create(job_id=job.pk, paused=True)
    assert bench.claim(DUE_MS).claimed == []
    assert bench.states() == [("skipped", "paused", 0)]
    assert bench.state(job).next_due_at_ms == DUE_MS + 60_000


def test_pause_ends_by_itself(bench: SchedulingBench) -> None:
    """After its until date a pause no longer counts."""
    job = bench.every(60)
    bench.plan()
    JobPolicy.objects.using(bench.alias).create(job_id=job.pk, paused=True, paused_until_ms=DUE_MS)
    assert len(bench.claim(DUE_MS).claimed) == 1


def test_overlap_skip_waits_for_an_unfinished_predecessor_but_not_for_ever(bench: SchedulingBench) -> None:
    """A predecessor that never reported blocks no longer than its longest run."""
    job = bench.every(60)
    JobPolicy.objects.using(bench.alias).create(job_id=job.pk, overlap="skip", longest_run_s=100)
    bench.plan()
    bench.claim(DUE_MS)
    bench.claim(DUE_MS + 60_000)
    bench.claim(DUE_MS + 120_000)
    assert bench.states() == [("claimed", "", 1), ("skipped", "overlap", 0), ("claimed", "", 1)]


def test_longest_run_of_a_month_is_an_ordinary_one(bench: SchedulingBench) -> None:
    """In seconds it fits the column, in milliseconds it does not."""
    job = bench.every(60)
    JobPolicy.objects.using(bench.alias).create(job_id=job.pk, overlap="skip", longest_run_s=30 * 86_400)
    bench.plan()
    bench.claim(DUE_MS)
    bench.claim(DUE_MS + 60_000)
    assert bench.states() == [("claimed", "", 1), ("skipped", "overlap", 0)]


def test_day_of_missed_seconds_is_one_row_a_job(bench: SchedulingBench) -> None:
    """Everything stopped for a day: the latest second fires, the others are one row with a count."""
    job = bench.every(1)
    bench.plan()
    now_ms = NOW_MS + 86_400_000
    reply = bench.claim(now_ms)
    fired = {row.due_at_ms for row in bench.occurrences(job) if row.state == "claimed"}
    skipped = [row for row in bench.occurrences(job) if row.state == "skipped"]
    assert {row.due_at_ms for row in reply.claimed} == fired
    assert sum(row.slots for row in skipped) + len(fired) == 86_400
    assert len(skipped) == 1
    assert (skipped[0].reason, skipped[0].first_due_at_ms) == ("catch_up", NOW_MS + 1000)


def test_occurrence_that_exists_is_not_claimed_again(bench: SchedulingBench) -> None:
    """(job, due) is unique: a plan that comes back to a slot moves past it and sends nothing (I4)."""
    bench.every(60)
    bench.plan()
    bench.confirm(bench.claim(DUE_MS).claimed, now_ms=DUE_MS)
    JobState.objects.using(bench.alias).update(next_due_at_ms=DUE_MS, fire_at_ms=DUE_MS)
    assert bench.claim(DUE_MS + 5).claimed == []
    assert bench.states() == [("sent", "", 1)]


def test_request_that_somebody_has_locked_is_passed_over(bench: SchedulingBench) -> None:
    """The claim waits for no other row while it holds the lease row (P2)."""
    if bench.alias == "sqlite":
        return  # one writer: everybody waits until it ends
    job = bench.every(60)
    bench.plan()
    row = Occurrence(job_id=job.pk, due_at_ms=NOW_MS + 5, state="requested", task_id="t")
    bench.insert(row)
    with bench.locked_rows(Occurrence.objects.using(bench.alias).filter(pk=row.pk)):
        reply = bench.claim(NOW_MS + 60_000)
    assert (len(reply.claimed), set(reply.locked)) == (1, {row.pk})
    assert [each.claim.occurrence_id for each in bench.claim(NOW_MS + 60_005).claimed] == [row.pk]


def test_requested_occurrence_is_claimed_like_any_other(bench: SchedulingBench) -> None:
    """ "Run now" is a row that the holder takes once."""
    job = bench.every(3600)
    bench.plan()
    Occurrence.objects.using(bench.alias).create(job_id=job.pk, due_at_ms=NOW_MS + 5, state="requested", task_id="t")
    (claimed,) = bench.claim(NOW_MS + 10).claimed
    assert (claimed.due_at_ms, claimed.claim.attempt, claimed.task_id) == (NOW_MS + 5, 1, "t")
    assert bench.claim(NOW_MS + 11).claimed == []


def test_history_is_purged_in_small_batches_and_the_outbox_never(bench: SchedulingBench) -> None:
    """What is old and finished goes, at most so many at once; what is unconfirmed stays, however old."""
    job = bench.every(60)
    bench.plan()
    bench.claim(DUE_MS)
    rows = Occurrence.objects.using(bench.alias)
    rows.bulk_create([Occurrence(job_id=job.pk, due_at_ms=n, state="succeeded") for n in range(5)])
    outbox = bench.outbox(DUE_MS + 10)
    assert [outbox.purge(older_than_ms=1000, limit=3) for _ in range(3)] == [3, 2, 0]
    assert bench.states() == [("claimed", "", 1)]
