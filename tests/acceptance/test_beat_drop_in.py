"""``celery beat -S django_leased_cron.beat:LeasedScheduler``, in several copies, and inside a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.forms import SCALED
from tests.acceptance.processes import Process
from tests.acceptance.waiting import next_second_ms, now_ms, wait_for_instant, wait_until

_SCHEDULER = "django_leased_cron.beat:LeasedScheduler"
_SLACK_MS = 500
on_postgres_and_sqlite = pytest.mark.parametrize("stack", ["postgres-redis", "sqlite-filesystem"], indirect=True)
on_sqlite = pytest.mark.parametrize("stack", ["sqlite-filesystem"], indirect=True)


class BeatFleet(Fleet):
    """A fleet whose schedulers are started by Celery."""

    def start_supervisor(self) -> Process:
        number = len(self._processes) + 1
        return self._start(f"beat {number}", f"-m celery -A example_project beat -S {_SCHEDULER} -l INFO".split())

    def start_worker_with_beat(self) -> Process:
        arguments = f"-m celery -A example_project worker -B --scheduler {_SCHEDULER} --pool=solo -l INFO".split()
        return self._start("worker with beat", arguments)


@pytest.fixture
def beats(stack: str, django_db_blocker: DjangoDbBlocker) -> Iterator[BeatFleet]:
    """Yield a fleet on a migrated database, without processes."""
    with django_db_blocker.unblock():
        fleet = BeatFleet(stack, cuttable=False, leased_cron=SCALED)
        try:
            fleet.migrate()
            yield fleet
        finally:
            fleet.close()


@on_postgres_and_sqlite
def test_run_two_and_kill_the_holder(beats: BeatFleet, report: Report) -> None:
    """Each due second of each job is dispatched once, and only what was in hand is sent again."""
    beats.start(supervisors=2)
    jobs = beats.add_jobs(3)
    beats.wait_for_message(jobs, due_from_ms=jobs.first_due_ms)

    holder = beats.wait_for_holder()
    wait_for_instant(next_second_ms() + 500)
    holder.kill()
    killed_at_ms = now_ms()
    in_hand = beats.read_claimed()
    beats.wait_for_holder(other_than=holder)
    beats.wait_for_message(jobs, due_from_ms=killed_at_ms)
    beats.wait_for_confirms()
    account = beats.finish(jobs, until_ms=next_second_ms())

    assert beats.timing.rescue_after_s is not None
    bound_ms = round((beats.timing.rescue_after_s + beats.timing.poll_interval_s) * 1000) + _SLACK_MS
    late_ms = account.worst_lateness_ms(without=in_hand)
    report(f"{account}, {len(in_hand)} in hand, the rest {late_ms} ms late at worst")
    assert not account.lost
    assert not account.strangers
    assert account.sent_again <= in_hand
    assert not account.not_run
    assert not account.run_twice
    assert late_ms <= bound_ms


@on_postgres_and_sqlite
@pytest.mark.parametrize("signals", [1, pytest.param(2, marks=pytest.mark.full)])
def test_stop_the_holder(beats: BeatFleet, report: Report, signals: int) -> None:
    """It hands over at once, and a second signal, which many parents send along with the first, changes nothing."""
    beats.start(supervisors=2)
    jobs = beats.add_jobs(3)
    beats.wait_for_message(jobs, due_from_ms=jobs.first_due_ms)

    holder = beats.wait_for_holder()
    signalled_at_ms = now_ms()
    for _ in range(signals):
        holder.terminate()
    beats.wait_for_holder(other_than=holder)
    lease = beats.read_lease()
    assert lease is not None
    gap_ms = lease.acquired_at_ms - signalled_at_ms
    assert holder.wait_for_exit(within_s=5) == 0
    beats.wait_for_message(jobs, due_from_ms=next_second_ms())
    account = beats.finish(jobs, until_ms=next_second_ms())

    report(f"{account}, next holder after {gap_ms} ms")
    assert gap_ms <= (200 if beats.database.announces_releases else round(beats.timing.poll_interval_s * 1000) + 300)
    assert "leases released" in holder.read_log()
    assert not account.lost
    assert not account.strangers
    assert not account.sent_again
    assert not account.run_twice


@on_sqlite
def test_start_with_a_configuration_that_cannot_work(beats: BeatFleet) -> None:
    """Every problem is named at once, and the exit code tells a process manager not to try again."""
    beats.leased_cron = {"LEASE_TTLL": 3, "HEARTBEAT": 100}
    beat = beats.start_supervisor()
    assert beat.wait_for_exit(within_s=30) == 2
    log = beat.read_log()
    assert "Did you mean 'LEASE_TTL'?" in log
    assert "HEARTBEAT (100 s) is longer" in log
    assert "Traceback" not in log


@on_sqlite
def test_run_inside_a_worker_and_stop_that(beats: BeatFleet) -> None:
    """As ``celery worker -B`` does for small sites: the job runs, and the lease is free at once when it is stopped."""
    worker = beats.start_worker_with_beat()
    worker.wait_for_line("Ready as", within_s=30)
    beats.add_jobs(1)
    wait_until(beats.read_runs, "a run", within_s=15)

    worker.terminate()
    assert worker.wait_for_exit(within_s=15) == 0
    lease = beats.read_lease()
    assert lease is not None
    assert lease.holder_id == ""
    assert beats.read_claimed() == frozenset()
