"""A project is restarted with another ``TIME_ZONE``, ``CELERY_TIMEZONE`` and ``USE_TZ``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest
from django_celery_beat.models import PeriodicTask

from tests.acceptance.fleet import Fleet
from tests.acceptance.forms import SCALED, others_in_full
from tests.acceptance.stacks import STACKS
from tests.acceptance.waiting import next_second_ms

TOKYO: Final[Mapping[str, str]] = {"EXAMPLE_TIME_ZONE": "Asia/Tokyo", "EXAMPLE_USE_TZ": "0"}
AWARE_UTC: Final[Mapping[str, str]] = {"EXAMPLE_TIME_ZONE": "UTC", "EXAMPLE_USE_TZ": "1"}
NEW_YORK: Final[Mapping[str, str]] = {"EXAMPLE_TIME_ZONE": "America/New_York", "EXAMPLE_USE_TZ": "0"}


@pytest.mark.parametrize("stack", others_in_full(*reversed(STACKS)), indirect=True)
def test_move_to_another_time_zone(fleet: Fleet) -> None:
    """Back by nine hours and by five: what comes due before, meanwhile and afterwards is sent once, on its cadence."""
    fleet.leased_cron = {**SCALED, "LEASE_TTL": 30}  # however long a restart takes, nothing counts as missed
    fleet.open_tap()
    jobs = fleet.prepare_jobs(3)
    # Without a start time: the cadence hangs on what was sent last.
    PeriodicTask.objects.using(fleet.database.alias).filter(id__in=jobs.ids).update(start_time=None)
    fleet.environment = TOKYO
    fleet.start_supervisors(1)
    jobs = fleet.wait_until_planned(jobs)
    for other_zone in (AWARE_UTC, NEW_YORK):
        fleet.wait_for_message(jobs, due_from_ms=next_second_ms())
        fleet.stop_supervisors()
        fleet.environment = other_zone
        fleet.start_supervisors(1)
    fleet.wait_for_message(jobs, due_from_ms=next_second_ms())
    account = fleet.finish(jobs, until_ms=next_second_ms())
    assert not account.lost
    assert not account.strangers
    assert not account.sent_again
