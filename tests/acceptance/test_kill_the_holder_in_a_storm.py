"""SIGKILL in the middle of thousands of jobs that are due at once."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.forms import EVERY_ONE_COUNTS, Form, in_both_forms
from tests.acceptance.waiting import now_ms, wait_for_instant, wait_until

_BOUND_S = 10.0


@in_both_forms
@pytest.mark.parametrize("stack", ["postgres-redis"], indirect=True)
def test_kill_the_holder_in_the_middle_of_a_storm(fleet: Fleet, form: Form, report: Report) -> None:
    """All of the storm reaches the broker soon after the kill, and only what was in hand is sent again."""
    fleet.leased_cron = {**form.leased_cron, **EVERY_ONE_COUNTS}
    tap = fleet.open_tap()
    fleet.start_supervisors(3)
    for number in range(form.storms):
        storm = fleet.brew_storm(form.storm_jobs)
        until_ms = storm.first_due_ms + 1
        enough = len(tap.messages) + form.storm_jobs * (number + 1) // (form.storms + 1)
        wait_for_instant(storm.first_due_ms)
        wait_until(lambda: len(tap.messages) >= enough, "the storm to be under way", within_s=30, every_s=0.001)  # noqa: B023 - called here and now
        holder = fleet.wait_for_holder()
        holder.kill()
        killed_at_ms = now_ms()
        in_hand = fleet.read_claimed()
        arrived = len(fleet.account_for(storm, until_ms=until_ms).messages)
        fleet.start_supervisors(1)
        account = wait_until(..., within_s=_BOUND_S + 20)
