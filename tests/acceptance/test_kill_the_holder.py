"""SIGKILL: the holder is gone without a word, and whatever it had in hand is for others to finish."""

from __future__ import annotations

from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.forms import Form, in_both_forms
from tests.acceptance.waiting import next_second_ms, now_ms, wait_for_instant, wait_until

_SLACK_MS = 500


@in_both_forms
def test_kill_the_holder(fleet: Fleet, form: Form, report: Report) -> None:
    """Nothing runs twice, nothing is lost, only what was in hand is sent again, and the rest is hardly late."""
    fleet.leased_cron = form.leased_cron
    timing = fleet.timing
    fleet.start(supervisors=3)
    jobs = fleet.add_jobs(3)
    fleet.wait_for_message(jobs, due_from_ms=jobs.first_due_ms)

    in_hand: set[str] = set()
    for number in range(form.kills):
        holder = fleet.wait_for_holder()
        _wait_for_the_worst_moment(fleet, in_a_batch=number % 2 == 1)
        holder.kill()
        killed_at_ms = now_ms()
        in_hand |= fleet.read_claimed()
        fleet.start_supervisors(1)
        fleet.wait_for_holder(other_than=holder)
        fleet.wait_for_message(jobs, due_from_ms=killed_at_ms)
        fleet.wait_for_confirms()
    account = fleet.finish(jobs, until_ms=next_second_ms())

    assert timing.rescue_after_s is not None
    bound_ms = round((timing.rescue_after_s + timing.poll_interval_s) * 1000) + _SLACK_MS
    late_ms = account.worst_lateness_ms(without=in_hand)
    report(f"{account}, {len(in_hand)} in hand at {form.kills} kills, the rest {late_ms} ms late at worst")
    assert not account.lost
    assert not account.strangers
    assert account.sent_again <= in_hand
    assert not account.indistinct
    assert not account.not_run
    assert not account.run_twice
    assert late_ms <= bound_ms
    assert account.worst_lateness_ms() <= bound_ms + timing.publish_timeout_s * 1000


def _wait_for_the_worst_moment(fleet: Fleet, *, in_a_batch: bool) -> None:
    """Wait until a batch has just begun to arrive, or for the middle between two."""
    if in_a_batch:
        messages = fleet.tap.messages
        seen = len(messages)
        wait_until(lambda: len(messages) > seen, "a message", within_s=5, every_s=0.0005)
    else:
        wait_for_instant(next_second_ms() + 500)
