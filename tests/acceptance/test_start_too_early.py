"""A scheduler that is started before what it needs is there: it says so, waits, and goes on by itself."""

from __future__ import annotations

from tests.acceptance.fleet import Fleet
from tests.acceptance.waiting import next_second_ms


def test_start_before_the_database(cuttable_fleet: Fleet) -> None:
    """A database that is down at start is waited for."""
    fleet = cuttable_fleet
    fleet.migrate()
    jobs = fleet.prepare_jobs(1)
    fleet.open_tap()
    fleet.database.line.cut()

    supervisor = fleet.start_supervisor()
    supervisor.wait_for_line("ERROR", "database 'default'", "trying again")
    fleet.database.line.restore()

    fleet.wait_for_message(jobs, due_from_ms=next_second_ms())
    supervisor.wait_for_line("Database 'default'", "works again")
    fleet.stop_supervisors()
    assert "Traceback" not in supervisor.read_log()


def test_start_before_migrate(cuttable_fleet: Fleet) -> None:
    """Where tables are missing, the remedy is named, and once it is taken nothing needs to be restarted."""
    fleet = cuttable_fleet
    fleet.open_tap()

    supervisor = fleet.start_supervisor()
    supervisor.wait_for_line("ERROR", "leased_cron_schedulerlease", "manage.py migrate --database=default")
    fleet.migrate()

    jobs = fleet.add_jobs(1)
    fleet.wait_for_message(jobs, due_from_ms=jobs.first_due_ms)
    supervisor.wait_for_line("Database 'default'", "works again")
    fleet.stop_supervisors()
    assert "Traceback" not in supervisor.read_log()


def test_start_before_the_broker(cuttable_fleet: Fleet) -> None:
    """What comes due while the broker is not up yet is sent when it is, once."""
    fleet = cuttable_fleet
    fleet.migrate()
    fleet.open_tap()
    if not fleet.broker.made_by_settings:
        fleet.broker.line.cut()
    (supervisor,) = fleet.start_supervisors(1)
    if fleet.broker.made_by_settings:
        fleet.broker.line.cut()
    jobs = fleet.add_jobs(1)

    supervisor.wait_for_line("ERROR", "the broker does not take messages", "trying again")
    fleet.broker.line.restore()

    account = fleet.finish(jobs, until_ms=next_second_ms())
    assert "the broker takes messages again" in supervisor.read_log()
    assert "Traceback" not in supervisor.read_log()
    assert not account.lost
    assert not account.sent_again
