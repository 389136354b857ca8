"""The broker goes away while schedulers run, and comes back."""

from __future__ import annotations

from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.waiting import next_second_ms, wait_for_instant

_AWAY_MS = 2500


def test_lose_the_broker_for_some_seconds(cuttable_fleet: Fleet, report: Report) -> None:
    """Nothing is lost, everything is sent once, and nobody takes over from anybody."""
    fleet = cuttable_fleet
    fleet.migrate()
    fleet.open_tap()
    fleet.start_supervisors(2)
    jobs = fleet.add_jobs(3)
    fleet.wait_for_message(jobs, due_from_ms=jobs.first_due_ms)
    before = fleet.read_lease()

    away_at_ms = next_second_ms() + 500  # between two batches: what the broker has not confirmed may be sent again
    wait_for_instant(away_at_ms)
    fleet.broker.line.cut()
    wait_for_instant(away_at_ms + _AWAY_MS)
    fleet.broker.line.restore()
    account = fleet.settle(jobs, until_ms=next_second_ms(after_s=1))
    after = fleet.read_lease()

    report(f"{account}, {_AWAY_MS} ms without a broker, {account.worst_lateness_ms()} ms late at worst")
    fleet.stop_supervisors()
    assert not account.lost
    assert not account.strangers
    assert not account.sent_again
    assert before is not None
    assert after is not None
    assert after.epoch == before.epoch
