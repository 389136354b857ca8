"""SIGKILL in the middle of thousands of jobs that are due at once."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.forms import Form, in_both_forms
from tests.acceptance.waiting import now_ms, wait_for_instant, wait_until

_BOUND_MS = 10_000
_MOST_IN_HAND = 2 * 500


@in_both_forms
@pytest.mark.parametrize("stack", ["postgres-redis"], indirect=True)
def test_kill_the_holder_in_the_middle_of_a_storm(fleet: Fleet, form: Form, report: Report) -> None:
    """All of the storm reaches the broker soon after the kill, and only what was in hand is sent again."""
    fleet.leased_cron = form.leased_cron
    fleet.open_tap()
    fleet.start_supervisors(3)
    for number in range(form.storms):
        share = (number + 1) / (form.storms + 1)
        figures = _kill_in_a_storm(fleet, jobs=form.storm_jobs, after=round(share * form.storm_jobs))
        report(figures)
        fleet.start_supervisors(1)


def _kill_in_a_storm(fleet: Fleet, *, jobs: int, after: int) -> str:
    """Kill after so many messages; return what became of the others."""
    storm = fleet.brew_storm(jobs)
    messages = fleet.tap.messages
    enough = len(messages) + after
    wait_for_instant(storm.first_due_ms)
    wait_until(lambda: len(messages) >= enough, "the storm to be under way", within_s=30, every_s=0.001)
    holder = fleet.wait_for_holder()
    holder.kill()
    killed_at_ms, arrived = now_ms(), len(messages) - enough + after
    in_hand = fleet.read_claimed()

    account = fleet.settle(storm, until_ms=storm.first_due_ms + 1)
    last_ms = max(copies[0].arrived_at_ms for copies in account.messages.values()) - killed_at_ms
    fleet.remove_jobs(storm)
    assert arrived < jobs, "the storm was over before the kill"
    assert not account.lost
    assert not account.strangers
    assert account.sent_again <= in_hand
    assert not account.indistinct
    assert len(in_hand) <= _MOST_IN_HAND
    assert last_ms <= _BOUND_MS
    return f"{account}, killed after {arrived} with {len(in_hand)} in hand, all arrived {last_ms} ms after that"
