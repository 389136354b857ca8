"""Adoption on real databases: A1, A4, A6, A7, and what a confirm of another term may still do (P2)."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import transaction

from django_leased_cron.core.outbox import Adoption, ClaimedOccurrence, JobRun, Outcome, UnconfirmedClaim
from django_leased_cron.models import JobPolicy, Occurrence
from tests.integration.scheduling_bench import NOW_MS, SchedulingBench

DUE_MS = NOW_MS + 60_000
LATER_MS = DUE_MS + 10_000


def adopt(*claimed: ClaimedOccurrence, never_started: bool = False) -> list[Adoption]:
    return [Adoption(claim=each.claim, never_started=never_started) for each in claimed]


def claim_one(bench: SchedulingBench, **policy: str) -> ClaimedOccurrence:
    """Plan one job and claim its first slot at epoch 1."""
    job = bench.every(60, args="[1]")
    if policy:
        JobPolicy.objects.using(bench.alias).create(job_id=job.pk, **policy)
    bench.plan()
    (claimed,) = bench.claim(DUE_MS).claimed
    return claimed


def test_adopted_claim_is_the_adopters_with_the_next_attempt(bench: SchedulingBench) -> None:
    """Epoch, attempt and time move on, the task id stays, and the current definition is read."""
    old = claim_one(bench)
    bench.hold_lease(epoch=2)
    assert [c.occurrence_id for c in bench.outbox().read_predecessors(epoch=2, limit=10)] == [old.claim.occurrence_id]
    (new,) = bench.claim(LATER_MS, epoch=2, adoptions=adopt(old)).claimed
    assert new.claim == UnconfirmedClaim(occurrence_id=old.claim.occurrence_id, epoch=2, attempt=2)
    assert (new.task_id, new.due_at_ms) == (old.task_id, old.due_at_ms)
    assert new.message is not None


def test_adopted_one_off_is_known_to_be_finished_by_its_run(bench: SchedulingBench) -> None:
    """The adopter has not seen its plan; a job with more to come is not finished."""
    once, often = bench.every(60, one_off=True), bench.every(60)
    bench.plan()
    old = bench.claim(DUE_MS).claimed
    bench.hold_lease(epoch=2)
    new = bench.claim(LATER_MS, epoch=2, adoptions=adopt(*old)).claimed
    for claimed in (old, new):
        assert {each.job_id: each.finishes for each in claimed} == {once.pk: True, often.pk: False}


def test_adopted_one_off_that_was_given_another_time_is_not_finished(bench: SchedulingBench) -> None:
    """It is about to be planned anew: switched off for its first run, it would not have its second."""
    once = bench.every(60, one_off=True)
    bench.plan()
    old = bench.claim(DUE_MS).claimed
    bench.edit(once, start_time=datetime(2027, 2, 1, tzinfo=UTC))
    bench.hold_lease(epoch=2)
    (new,) = bench.claim(LATER_MS, epoch=2, adoptions=adopt(*old)).claimed
    assert not new.finishes


def test_adoption_that_waited_for_a_row_does_not_undo_what_happened_to_it(bench: SchedulingBench) -> None:
    """A worker is starting the occurrence: it is passed over, or waited for on SQLite, and not published again (A1)."""
    old = claim_one(bench)
    bench.hold_lease(epoch=2)
    order = bench.order(LATER_MS, epoch=2, adoptions=adopt(old))
    with transaction.atomic(using=bench.alias):
        Occurrence.objects.using(bench.alias).update(state="running", run_attempt=1)
        call = bench.in_thread(lambda: bench.outbox(LATER_MS).claim(order))
        assert call.is_waiting is (bench.alias == "sqlite")
    assert call.result().claimed == []
    assert bench.states() == [("running", "", 1)]


def test_confirmed_claim_is_not_adopted(bench: SchedulingBench) -> None:
    """The successor read it as unconfirmed, its holder confirmed it meanwhile."""
    old = claim_one(bench)
    bench.hold_lease(epoch=2)
    bench.confirm([old], now_ms=LATER_MS)
    assert bench.claim(LATER_MS, epoch=2, adoptions=adopt(old)).claimed == []
    assert bench.states() == [("sent", "", 1)]


def test_old_term_confirms_what_it_published_and_changes_nothing_else(bench: SchedulingBench) -> None:
    """A replaced holder's confirm counts for its message, and leaves the new holder's lease alone."""
    old = claim_one(bench)
    bench.hold_lease(epoch=2, holder_id="other")
    before = bench.lease
    bench.confirm([old], now_ms=LATER_MS, epoch=1)
    assert bench.states() == [("sent", "", 1)]
    after = bench.lease
    assert (after.holder_id, after.epoch, after.expires_at_ms, after.progressed_at_ms, after.owed_since_ms) == (
        before.holder_id,
        before.epoch,
        before.expires_at_ms,
        before.progressed_at_ms,
        before.owed_since_ms,
    )


def test_confirm_of_an_adopted_attempt_matches_nothing(bench: SchedulingBench) -> None:
    """What epoch 2 has claimed anew is epoch 2's to confirm."""
    old = claim_one(bench)
    bench.hold_lease(epoch=2)
    bench.claim(LATER_MS, epoch=2, adoptions=adopt(old))
    bench.confirm([old], now_ms=LATER_MS)
    assert bench.states() == [("claimed", "", 2)]


def test_late_confirm_makes_uncertain_sent(bench: SchedulingBench) -> None:
    """At most once: the successor wrote "uncertain", then the frozen holder's message landed."""
    old = claim_one(bench, delivery="at_most_once")
    bench.hold_lease(epoch=2)
    assert bench.claim(LATER_MS, epoch=2, adoptions=adopt(old)).claimed == []
    assert [state for state, _, _ in bench.states()] == ["uncertain"]
    bench.confirm([old], now_ms=LATER_MS)
    assert [state for state, _, _ in bench.states()] == ["sent"]


def test_states_only_move_forward(bench: SchedulingBench) -> None:
    """A worker was quicker than the confirm: its start counts as confirmation and is not taken back."""
    old = claim_one(bench)
    Occurrence.objects.using(bench.alias).update(state="succeeded", run_attempt=1)
    bench.confirm([old], now_ms=LATER_MS)
    assert bench.states() == [("succeeded", "", 1)]


def test_at_most_once_is_tried_again_only_if_never_started(bench: SchedulingBench) -> None:
    """The claimer knows that its attempt was never written."""
    old = claim_one(bench, delivery="at_most_once")
    (new,) = bench.claim(LATER_MS, adoptions=adopt(old, never_started=True)).claimed
    assert (new.claim.attempt, new.at_most_once) == (2, True)


def test_disabled_job_is_skipped_only_if_surely_unpublished(bench: SchedulingBench) -> None:
    """Attempt 1 that never started: skipped. Otherwise nobody can know: uncertain."""
    old = claim_one(bench)
    other_job = bench.every(30)
    bench.plan(DUE_MS)
    (other,) = bench.claim(DUE_MS + 30_000, in_hand={(old.claim.occurrence_id, 1)}).claimed[:1]
    for job_id in (old.job_id, other_job.pk):
        type(other_job).objects.using(bench.alias).filter(pk=job_id).update(enabled=False)
    orders = [*adopt(old, never_started=True), *adopt(other)]
    assert bench.claim(DUE_MS + 31_000, adoptions=orders).claimed == []
    assert {row.job_id: row.state for row in bench.occurrences()} == {old.job_id: "skipped", other_job.pk: "uncertain"}


def test_deleted_job_is_skipped(bench: SchedulingBench) -> None:
    """There is nothing to publish."""
    old = claim_one(bench)
    bench.hold_lease(epoch=2)
    type(bench.every(5)).objects.using(bench.alias).filter(pk=old.job_id)._raw_delete(bench.alias)
    assert bench.claim(LATER_MS, epoch=2, adoptions=adopt(old)).claimed == []
    assert bench.states() == [("skipped", "deleted", 1)]


def test_predecessors_claim_is_superseded_by_a_newer_one_unless_all_are_wanted(bench: SchedulingBench) -> None:
    """What was missed when it was claimed serves nobody once a newer one went out, except where all count."""
    job = bench.every(60)
    everyone = bench.every(60)
    JobPolicy.objects.using(bench.alias).create(job_id=everyone.pk, catch_up="all")
    bench.plan()
    old = bench.claim(DUE_MS + 40_000).claimed
    bench.hold_lease(epoch=2)
    bench.claim(DUE_MS + 60_000, epoch=2)
    new = bench.claim(DUE_MS + 60_005, epoch=2, adoptions=adopt(*old)).claimed
    assert [each.job_id for each in new] == [everyone.pk]
    assert [state for state, _, _ in bench.states(job)] == ["uncertain", "claimed"]


def test_predecessors_claim_that_is_merely_late_is_published(bench: SchedulingBench) -> None:
    """A batch in the hand of a killed holder was claimed in time, however long the broker is away then (I3)."""
    job = bench.every(100)
    bench.plan()
    old = bench.claim(NOW_MS + 100_000).claimed
    bench.hold_lease(epoch=2)
    bench.claim(NOW_MS + 200_000, epoch=2)
    (new,) = bench.claim(NOW_MS + 200_005, epoch=2, adoptions=adopt(*old)).claimed
    assert (new.job_id, new.due_at_ms) == (job.pk, NOW_MS + 100_000)


def test_claim_in_time_is_published_however_late_it_was_tried_again(bench: SchedulingBench) -> None:
    """Its holder tried again while the broker was away, then died: the claim was in time all the same (I3)."""
    job = bench.every(100)
    bench.plan()
    first = bench.claim(NOW_MS + 100_000).claimed
    again = bench.claim(NOW_MS + 190_000, adoptions=adopt(*first, never_started=True)).claimed
    bench.hold_lease(epoch=2)
    bench.claim(NOW_MS + 200_000, epoch=2)
    (new,) = bench.claim(NOW_MS + 200_005, epoch=2, adoptions=adopt(*again)).claimed
    assert (new.job_id, new.due_at_ms) == (job.pk, NOW_MS + 100_000)


def test_adoption_is_not_taken_for_another_schedulers_run(bench: SchedulingBench) -> None:
    """Its run is recorded at the adopting claim's time, long after the slot was planned."""
    old = claim_one(bench)
    (new,) = bench.claim(LATER_MS, adoptions=adopt(old, never_started=True)).claimed
    bench.confirm([new], now_ms=LATER_MS)
    run = JobRun(job_id=new.job_id, runs=1, last_run_at_ms=LATER_MS, finished=False)
    bench.outbox(LATER_MS).record_runs([run])
    assert bench.plan(LATER_MS) == []
    assert len(bench.claim(DUE_MS + 60_000).claimed) == 1


def test_own_late_claim_is_not_superseded(bench: SchedulingBench) -> None:
    """Under a live holder whatever is merely late is dispatched (I3)."""
    old = claim_one(bench)
    in_hand = {(old.claim.occurrence_id, 1)}
    bench.claim(DUE_MS + 60_000, in_hand=in_hand)
    (new,) = bench.claim(DUE_MS + 60_005, in_hand=in_hand, adoptions=adopt(old, never_started=True)).claimed
    assert new.due_at_ms == DUE_MS


def test_lost_reply_to_commit_is_read_back_until_nothing_is_left(bench: SchedulingBench) -> None:
    """The claim stood, its reply did not come: the next claim adopts what nobody has in hand (A4)."""
    for _ in range(3):
        bench.every(60)
    bench.plan()
    bench.claim(DUE_MS)  # the reply is lost
    first = bench.claim(DUE_MS + 5, read_back=True, adopt_limit=2)
    assert (len(first.claimed), first.read_back_complete) == (2, False)
    in_hand = {(each.claim.occurrence_id, each.claim.attempt) for each in first.claimed}
    rest = bench.claim(DUE_MS + 10, read_back=True, adopt_limit=2, in_hand=in_hand)
    assert (len(rest.claimed), rest.read_back_complete) == (1, True)
    assert [attempt for _, _, attempt in bench.states()] == [2, 2, 2]


def test_read_back_knows_an_id_by_its_attempt(bench: SchedulingBench) -> None:
    """An adoption whose reply was lost left attempt 2 behind while attempt 1 is in hand: 2 is unknown, not 1."""
    old = claim_one(bench)
    bench.claim(DUE_MS + 5, adoptions=adopt(old, never_started=True))  # the reply is lost
    in_hand = {(old.claim.occurrence_id, 1)}
    again = adopt(old, never_started=True)
    (found,) = bench.claim(DUE_MS + 10, read_back=True, in_hand=in_hand, adoptions=again).claimed
    assert found.claim.attempt == 3


def test_lost_reply_to_a_predecessors_adoption_is_read_back(bench: SchedulingBench) -> None:
    """The same adoption is asked for again, matches nothing, and its new attempt is found all the same."""
    old = claim_one(bench)
    bench.hold_lease(epoch=2)
    bench.claim(LATER_MS, epoch=2, adoptions=adopt(old))  # the reply is lost
    reply = bench.claim(LATER_MS + 5, epoch=2, adoptions=adopt(old), read_back=True)
    assert [found.claim.attempt for found in reply.claimed] == [3]
    assert reply.read_back_complete


def test_failed_message_is_recorded_with_its_reason(bench: SchedulingBench) -> None:
    """Failed without a start time: it was never published."""
    old = claim_one(bench)
    bench.confirm([old], now_ms=LATER_MS, outcome=Outcome.FAILED)
    (row,) = bench.occurrences()
    assert (row.state, row.started_at_ms, row.finished_at_ms) == ("failed", None, LATER_MS)
