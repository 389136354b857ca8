"""One tenant's place in a process: what it learns, and what becomes of its term."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from django_leased_cron.core.clock import later
from django_leased_cron.core.events import DatabaseOutage, DatabaseRecovered, HandOverRequested, LoopFailed, TermEnded
from django_leased_cron.core.lease import FREE
from django_leased_cron.core.lease_machine import EndReason
from django_leased_cron.core.occurrence import OccurrenceState
from django_leased_cron.core.outbox import TermKey
from django_leased_cron.exceptions import CommitOutcomeUnknownError, DatabaseUnavailableError
from tests.unit.core.job_rows import every
from tests.unit.supervision.process import TENANT, TIMING, Process

AWAY = DatabaseUnavailableError("default", "connection refused")
SENT = OccurrenceState.SENT


def win(process: Process) -> int:
    """Have the seat win the lease now."""
    epoch = process.take_over()
    process.seat.won(epoch, process.clock.boot_time())
    return epoch


def step_until_at_rest(process: Process) -> float | None:
    """Step as the pool does while a step is wanted at once; return in how many seconds the next one is."""
    for _ in range(20):
        again_at = process.seat.step(process.publisher)
        if again_at is None or again_at > process.clock.boot_time():
            return None if again_at is None else again_at - process.clock.boot_time()
    raise AssertionError("the seat does not come to rest")


def held_epoch(process: Process) -> int | None:
    return None if process.seat.term is None else process.seat.term.epoch


def endings(process: Process) -> list[tuple[int, EndReason]]:
    return [(event.epoch, event.reason) for event in process.events.of(TermEnded)]


def test_lease_that_was_won_is_scheduled_at_once(process: Process) -> None:
    """The pool is woken; standby before that does nothing."""
    process.plan(7)
    assert process.seat.step(process.publisher) is None
    assert held_epoch(process) is None
    epoch = win(process)
    assert process.wakes == 1
    assert process.seat.term == TermKey(tenant_key=TENANT, holder_id="me", epoch=epoch)
    step_until_at_rest(process)
    assert process.sent() == [7]


def test_no_of_the_database_at_a_claim_ends_the_term_and_not_the_process(process: Process) -> None:
    """Back to standby; when the lease is won again, work goes on."""
    win(process)
    process.lose_lease()
    assert step_until_at_rest(process) is None
    assert endings(process) == [(1, EndReason.DENIED)]
    assert held_epoch(process) is None
    process.plan(7)
    win(process)
    step_until_at_rest(process)
    assert process.sent() == [7]


@pytest.mark.parametrize("stale", [0, 2])
def test_no_to_another_term_is_no_no_to_this_one(process: Process, stale: int) -> None:
    """A late message names its epoch."""
    win(process)
    process.seat.denied(stale)
    assert held_epoch(process) == 1


def test_process_that_slept_through_its_lease_claims_nothing(process: Process) -> None:
    """Frozen for a minute: the first thing it does is to end its term, whatever the row says."""
    process.plan(7, due_in_s=10)
    win(process)
    step_until_at_rest(process)
    process.clock.advance(60)
    claims = process.count("claim")
    assert process.seat.step(process.publisher) is None
    assert endings(process) == [(1, EndReason.TRUST_ENDED)]
    assert process.count("claim") == claims


def test_claims_prove_the_term_without_any_renewal(process: Process) -> None:
    """A holder that claims each second keeps its trust for ever."""
    process.plan(7, inputs=every(1))
    win(process)
    for _ in range(90):
        step_until_at_rest(process)
        process.clock.advance(1)
    assert endings(process) == []
    assert len(process.publisher.accepted) == 90


def test_database_that_does_not_answer_stops_nothing_and_forgets_nothing(process: Process) -> None:
    """Until trust runs out: not knowing is not losing. One line when it begins, one when it is over."""
    process.plan(7)
    win(process)
    for _ in range(20):
        process.outbox.acts.lose_request("claim", AWAY)
        assert step_until_at_rest(process) == pytest.approx(0.2)
        process.clock.advance(1)
    assert held_epoch(process) == 1
    step_until_at_rest(process)
    assert process.sent() == [7]
    assert len(process.events.of(DatabaseOutage)) == 1
    assert len(process.events.of(DatabaseRecovered)) == 1


def test_outage_that_ended_a_term_is_over_when_the_database_answers(process: Process) -> None:
    """Not with the term, and not only when there is another one, whose own outage is told again."""
    process.plan(7)
    for _ in range(2):
        win(process)
        process.outbox.acts.lose_request("claim", AWAY)
        step_until_at_rest(process)
        epoch = held_epoch(process)
        assert epoch is not None
        process.seat.denied(epoch)
        step_until_at_rest(process)
        assert isinstance(process.events[-1], TermEnded)
        process.seat.database_answered(wrote=False)
        assert isinstance(process.events[-1], TermEnded)
        process.seat.database_answered(wrote=True)
    told = [type(event) for event in process.events if isinstance(event, DatabaseOutage | DatabaseRecovered)]
    assert told == [DatabaseOutage, DatabaseRecovered] * 2


def test_what_can_be_read_is_no_proof_that_it_can_be_written(process: Process) -> None:
    """A row that is locked, a disk that is full: one line for as long as that lasts, though reading goes on."""
    win(process)
    step_until_at_rest(process)
    process.plan(7)
    for _ in range(5):
        process.clock.advance(2)  # so that the planner looks, too
        process.outbox.acts.lose_request("claim", AWAY)
        step_until_at_rest(process)
    assert len(process.events.of(DatabaseOutage)) == 1
    assert not process.events.of(DatabaseRecovered)
    step_until_at_rest(process)
    assert len(process.events.of(DatabaseRecovered)) == 1


def test_error_of_ours_is_told_and_the_loop_goes_on(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant is not left alone for it."""
    error = ZeroDivisionError()
    process.plan(7)
    win(process)
    with monkeypatch.context() as broken:
        broken.setattr(process.outbox, "claim", Mock(side_effect=error))
        assert step_until_at_rest(process) == pytest.approx(0.2)
    [failed] = process.events.of(LoopFailed)
    assert failed.error is error
    step_until_at_rest(process)
    assert process.sent() == [7]


def test_what_an_earlier_term_published_is_confirmed_without_a_lease(process: Process) -> None:
    """P2: an old term may and must, for as long as it takes; the seat asks to be stepped until it is done."""
    process.plan(7)
    win(process)
    for _ in range(3):
        process.outbox.acts.lose_request("confirm", AWAY)
        assert step_until_at_rest(process) == pytest.approx(0.2)
        process.seat.denied(1)
    assert held_epoch(process) is None
    assert step_until_at_rest(process) is None
    assert process.outbox.states() == [SENT]


def test_what_an_earlier_term_published_is_confirmed_though_its_row_was_locked(process: Process) -> None:
    """The lock outlives the term: the seat goes on asking to be stepped."""
    process.plan(7)
    process.outbox.locked_occurrences.add(1)
    win(process)
    step_until_at_rest(process)
    process.seat.denied(1)
    assert step_until_at_rest(process) is not None
    process.outbox.locked_occurrences.clear()
    process.clock.advance(1)
    assert step_until_at_rest(process) is None
    assert process.outbox.states() == [SENT]


def test_seat_whose_claim_was_denied_still_asks_for_the_confirm_of_a_locked_row(process: Process) -> None:
    """The no came in the very step after which nobody else would wake it."""
    process.plan(7)
    process.outbox.locked_occurrences.add(1)
    win(process)
    step_until_at_rest(process)
    process.lose_lease()
    process.plan(8)
    process.clock.advance(1)
    assert step_until_at_rest(process) is not None
    assert endings(process) == [(1, EndReason.DENIED)]
    process.outbox.locked_occurrences.clear()
    process.clock.advance(1)
    assert step_until_at_rest(process) is None
    assert process.outbox.states() == [SENT]


def test_lost_reply_of_the_last_confirm_is_asked_for_again(process: Process) -> None:
    """Unknown is not done."""
    process.plan(7)
    win(process)
    process.outbox.acts.lose_reply("confirm", CommitOutcomeUnknownError("default", "lost"))
    step_until_at_rest(process)
    process.seat.denied(1)
    step_until_at_rest(process)
    assert process.count("confirm") == 2


def test_new_term_remembers_nothing_of_the_old_one(process: Process) -> None:
    """A job planned in memory is gone with its term: the plan is read anew."""
    process.plan(7, due_in_s=5)
    win(process)
    step_until_at_rest(process)
    process.seat.denied(1)
    del process.outbox.plans[7]
    win(process)
    process.clock.advance(10)
    step_until_at_rest(process)
    assert process.outbox.orders[-1].advances == []
    assert process.outbox.orders[-1].term.epoch == 2


def test_announced_edit_is_looked_for_at_once(process: Process) -> None:
    """Not at the next poll; and it is for those who hold."""
    process.seat.edits_announced()
    assert process.wakes == 0
    process.outbox.notes_edits = True
    win(process)
    step_until_at_rest(process)
    looks, wakes = process.count("find_noted_changes"), process.wakes
    process.seat.edits_announced()
    assert process.wakes == wakes + 1
    step_until_at_rest(process)
    assert process.count("find_noted_changes") == looks + 1


def test_loop_that_is_not_stepped_when_it_is_time_is_stuck(process: Process) -> None:
    """From half a lease on; a won lease is a reason to be stepped at once, a step turns it."""
    limit_s = TIMING.loop_stalled_after_s
    win(process)
    process.clock.advance(limit_s)
    assert not process.seat.is_stuck(for_s=limit_s)
    process.clock.advance(0.1)
    assert process.seat.is_stuck(for_s=limit_s)
    process.seat.step(process.publisher)
    assert not process.seat.is_stuck(for_s=0)


def test_loop_that_rests_is_not_stuck(process: Process) -> None:
    """A seat is not stepped in vain, however many hours away its next job is; it is from when it should be on."""
    process.plan(7, due_in_s=7200)
    win(process)
    rests_for_s = step_until_at_rest(process)
    assert rests_for_s is not None
    process.clock.advance(rests_for_s)
    assert not process.seat.is_stuck(for_s=0)
    process.clock.advance(0.1)
    assert process.seat.is_stuck(for_s=0)


def test_loop_that_is_woken_from_its_rest_and_not_stepped_is_stuck(process: Process) -> None:
    """What it was woken for is due now."""
    win(process)
    step_until_at_rest(process)
    process.seat.edits_announced()
    process.clock.advance(0.1)
    assert process.seat.is_stuck(for_s=0)


def test_draining_seat_records_what_it_published_and_claims_nothing(process: Process) -> None:
    """Whatever is due."""
    process.plan(7)
    win(process)
    process.outbox.acts.lose_request("confirm", AWAY)
    step_until_at_rest(process)
    process.plan(8)
    wakes = process.wakes
    process.seat.drain()
    assert process.wakes == wakes + 1
    drained_before = process.seat.is_drained
    assert step_until_at_rest(process) is None
    assert (drained_before, process.seat.is_drained) == (False, True)
    assert process.sent() == [7]
    assert process.outbox.states() == [SENT]


def test_seat_is_drained_only_after_it_was_asked_to_be(process: Process) -> None:
    """An idle one may claim at any moment."""
    assert not process.seat.is_drained


def test_released_term_is_over(process: Process) -> None:
    """And nothing is claimed in its name."""
    win(process)
    step_until_at_rest(process)
    term = process.seat.term
    assert term is not None
    assert process.seat.release(term)
    assert held_epoch(process) is None
    assert endings(process) == [(1, EndReason.RELEASED)]
    process.clock.advance(1)
    claims = process.count("claim")
    assert step_until_at_rest(process) is None
    assert process.count("claim") == claims


# Hand-over.


def test_hand_over_releases_what_is_recorded_and_leaves_the_lease_to_others(process: Process) -> None:
    """For two polls: then it may bid again."""
    process.plan(7)
    win(process)
    step_until_at_rest(process)
    process.plan(8)
    wakes = process.wakes
    process.seat.hand_over(1)
    assert process.wakes == wakes + 1
    assert step_until_at_rest(process) is None
    assert process.sent() == [7]
    assert process.leases.rows[TENANT].holder_id == FREE
    assert endings(process) == [(1, EndReason.RELEASED)]
    assert not process.seat.may_bid(process.clock.boot_time())
    assert process.seat.may_bid(later(process.clock.boot_time(), 2 * TIMING.poll_interval_s))


def test_hand_over_waits_for_the_confirm(process: Process) -> None:
    """The successor would find the batch unconfirmed."""
    process.plan(7)
    win(process)
    process.outbox.acts.lose_request("confirm", AWAY, times=2)
    step_until_at_rest(process)
    process.seat.hand_over(1)
    assert step_until_at_rest(process) == pytest.approx(0.2)
    assert held_epoch(process) == 1
    process.clock.advance(0.2)
    step_until_at_rest(process)
    assert process.outbox.states() == [SENT]
    assert process.leases.acts.done[-1] == "release"
    assert held_epoch(process) is None


def test_hand_over_waits_no_longer_for_a_locked_row_than_its_adoption_would(process: Process) -> None:
    """A transaction left open on one occurrence must not stop the tenant; it is recorded after the term (P2)."""
    process.plan(7)
    process.outbox.locked_occurrences.add(1)
    win(process)
    step_until_at_rest(process)
    process.seat.hand_over(1)
    asked_at = process.clock.boot_time()
    wait_s = step_until_at_rest(process)
    while held_epoch(process) is not None:
        assert wait_s is not None
        process.clock.advance(wait_s)
        wait_s = step_until_at_rest(process)
    assert process.clock.boot_time() - asked_at == pytest.approx(TIMING.publish_timeout_s, abs=0.5)
    process.outbox.locked_occurrences.clear()
    process.clock.advance(1)
    step_until_at_rest(process)
    assert process.outbox.states() == [SENT]


def test_hand_over_with_a_batch_that_the_broker_did_not_take(process: Process) -> None:
    """It stays claimed: the successor adopts it (A3), this process no longer touches it."""
    process.plan(7)
    process.publisher.is_down = True
    win(process)
    step_until_at_rest(process)
    process.publisher.is_down = False
    process.seat.hand_over(1)
    step_until_at_rest(process)
    process.clock.advance(60)
    assert step_until_at_rest(process) is None
    assert process.sent() == []
    assert process.outbox.states() == [OccurrenceState.CLAIMED]
    assert process.leases.rows[TENANT].holder_id == FREE


@pytest.mark.parametrize("lose", ["lose_request", "lose_reply"])
def test_release_that_fails_in_a_hand_over_is_tried_again(process: Process, lose: str) -> None:
    """A reply that was lost is found to be a no, and the rest is kept all the same."""
    win(process)
    step_until_at_rest(process)
    getattr(process.leases.acts, lose)("release", CommitOutcomeUnknownError("default", "lost"))
    process.seat.hand_over(1)
    assert step_until_at_rest(process) == pytest.approx(0.2)
    process.clock.advance(0.2)
    assert step_until_at_rest(process) is None
    assert held_epoch(process) is None
    assert process.leases.rows[TENANT].holder_id == FREE
    assert not process.seat.may_bid(process.clock.boot_time())


def test_request_is_told_once_and_does_not_reach_the_next_term(process: Process) -> None:
    """A reading may be older than the term that it is acted on in."""
    win(process)
    process.seat.hand_over(1)
    process.seat.hand_over(1)
    assert len(process.events.of(HandOverRequested)) == 1
    process.seat.denied(1)
    process.plan(7)
    win(process)
    step_until_at_rest(process)
    assert held_epoch(process) == 2
    assert process.sent() == [7]


def test_lease_won_long_ago_is_not_believed_in(process: Process) -> None:
    """The reply took longer than the lease."""
    asked_at = process.clock.boot_time()
    epoch = process.take_over()
    process.clock.advance(TIMING.lease_ttl_s)
    process.seat.won(epoch, asked_at)
    assert held_epoch(process) is None
    assert later(asked_at, TIMING.lease_ttl_s) == process.clock.boot_time()
