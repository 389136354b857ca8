"""Settings that cannot work."""

from __future__ import annotations

import pytest

from tests.acceptance.fleet import Fleet


@pytest.mark.parametrize("stack", ["sqlite-filesystem"], indirect=True)
def test_start_with_wrong_settings(fleet: Fleet) -> None:
    """The process says all that is wrong at once, and exits with 2."""
    fleet.leased_cron = {"LEASE_TTL": 3, "HEARTBEAT": 2, "POLL_INTERVALL": 1, "CATCH_UP": "never"}

    supervisor = fleet.start_supervisor()

    assert supervisor.wait_for_exit(within_s=15) == 2
    log = supervisor.read_log()
    assert "HEARTBEAT (2 s) is longer than LEASE_TTL / 3 (1 s)" in log
    assert "there is no key POLL_INTERVALL" in log
    assert "CATCH_UP" in log
    assert "'never'" in log
    assert "Traceback" not in log
