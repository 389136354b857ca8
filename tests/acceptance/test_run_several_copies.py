"""Several schedulers at once, with nothing going wrong."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.forms import Form, in_both_forms, others_in_full
from tests.acceptance.stacks import STACKS


@pytest.mark.parametrize("stack", others_in_full(*reversed(STACKS)), indirect=True)
@in_both_forms
def test_run_three_copies(fleet: Fleet, form: Form, report: Report) -> None:
    """Of three schedulers and three jobs of one second, each due second of each job is dispatched once."""
    fleet.leased_cron = form.leased_cron
    fleet.start(supervisors=3)
    jobs = fleet.add_jobs(3)

    account = fleet.finish(jobs, until_ms=jobs.first_due_ms + form.seconds * 1000)

    report(f"{account}, {account.worst_lateness_ms()} ms late at worst")
    assert len(account.due) == 3 * form.seconds
    assert not account.lost
    assert not account.strangers
    assert not account.sent_again
    assert not account.not_run
    assert not account.run_twice
