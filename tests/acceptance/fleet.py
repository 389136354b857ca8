"""Several schedulers and a worker, as real processes, on a database and a broker of their own.

Whatever happens, :meth:`Fleet.close` ends the processes, by pid, and drops the database, the queues and the folder.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from django.db import DatabaseError, connections

from django_leased_cron.conf import build_settings
from django_leased_cron.core.timing import LeaseTiming
from django_leased_cron.hand_over import open_leases, request_hand_overs
from django_leased_cron.models import JobState, Occurrence, SchedulerLease, SchedulerProcess
from tests.acceptance.account import Account, draw_up, read_runs
from tests.acceptance.brokers import worker_queue
from tests.acceptance.databases import FILE_FOLDER, Database, migrate
from tests.acceptance.jobs import Jobs, add_jobs, remove_jobs
from tests.acceptance.own_servers import OwnServer, OwnServers, small_disk
from tests.acceptance.processes import Process
from tests.acceptance.stacks import build_stack
from tests.acceptance.tap import Tap
from tests.acceptance.waiting import next_second_ms, now_ms, try_until, wait_for_instant, wait_until
from tests.servers import require_server

_START_S = 30.0
"""Enough for a Python process on a machine with other things to do; nothing is judged by it."""
_SETTLE_S = 20.0
_PLANNED_IN_1_S = 500
_DAY_S = 86_400
_SERVER_OF_VENDOR = {"postgresql": "postgres", "mysql": "mysql"}
_SHOWN = 50


class Fleet:
    """Build it, migrate, start processes, add jobs, do harm, and read what came of it.

    Attributes:
        leased_cron: the dict ``LEASED_CRON`` of processes that are started from now on.
        environment: what else the settings of those processes are made from.
        database: and ``broker``: what the processes use.
    """

    def __init__(
        self,
        stack: str,
        *,
        leased_cron: Mapping[str, object],
        cuttable: bool = False,
        on_own_servers: bool = False,
        database_environment: Mapping[str, str] = MappingProxyType({}),
        disk_mb: int | None = None,
    ) -> None:
        self.leased_cron = leased_cron
        self.environment: Mapping[str, str] = {}
        self._cleanup = ExitStack()
        self._processes: list[Process] = []
        self._worker: Process | None = None
        self._tap: Tap | None = None
        name = f"fleet_{os.getpid()}_{secrets.token_hex(4)}"
        try:
            self._folder = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix=f"{name}_")))
            (self._folder / "data").mkdir()
            self._record_file = self._folder / "runs"
            if disk_mb is not None:
                (self._folder / FILE_FOLDER).mkdir()
                self._cleanup.enter_context(small_disk(self._folder / FILE_FOLDER, megabytes=disk_mb))
            self.servers = OwnServers(
                self._folder / "servers", self._cleanup, database_environment=database_environment, disk_mb=disk_mb
            )
            built = build_stack(
                stack,
                require_server=self.servers.require if on_own_servers else require_server,
                folder=self._folder,
                name=name,
                cleanup=self._cleanup,
                cuttable=cuttable,
            )
        except BaseException:
            self._cleanup.close()
            raise
        self.database, self.broker = built.database, built.broker

    def close(self) -> None:
        for process in self._processes:
            process.kill()
        self._cleanup.close()

    def describe(self) -> str:
        """Return what all processes wrote, and the occurrences that came to no good end: for whoever looks for why."""
        parts = [f"--- {process}\n{process.read_log()}" for process in self._processes]
        with suppress(DatabaseError):  # it may be what is wrong
            odd = Occurrence.objects.using(self.database.alias).exclude(state__in=("sent", "running", "succeeded"))
            parts += [str(row) for row in odd.values()[:_SHOWN]]
        return "\n".join(parts)

    @property
    def timing(self) -> LeaseTiming:
        return build_settings(self.leased_cron).timing

    # Starting

    def migrate(self) -> None:
        migrate(self.database)

    def add_copy(self, number: int) -> Database:
        """Return another database, with all that is in the first one."""
        return self.database.copy(f"{self.database.alias}_{number}", self._cleanup)

    def open_tap(self) -> Tap:
        """Drain the schedulers' queue, without a worker behind it."""
        self._tap = self._cleanup.enter_context(Tap(self.broker, passing_on=False))
        return self._tap

    def start(self, *, supervisors: int) -> None:
        """Start supervisors, and a worker behind a tap that passes every message on to it; wait until all are ready."""
        self._worker = self._start(
            "worker",
            "-m celery -A example_project worker --pool=solo --loglevel=INFO --without-gossip --without-mingle"
            f" --without-heartbeat --hostname={self.broker.queue}@%h".split(),
            EXAMPLE_QUEUE=worker_queue(self.broker.queue),
        )
        self.start_supervisors(supervisors)
        self._worker.wait_for_line("ready.", within_s=_START_S)
        self._tap = self._cleanup.enter_context(Tap(self.broker, passing_on=True))

    def start_supervisors(self, count: int) -> Sequence[Process]:
        """Start several and return when all of them look for leases."""
        supervisors = [self.start_supervisor() for _ in range(count)]
        for supervisor in supervisors:
            supervisor.wait_for_line("Ready as", within_s=_START_S)
        return supervisors

    def start_supervisor(self) -> Process:
        """Start one, and do not wait."""
        number = sum(process.name.startswith("supervisor") for process in self._processes) + 1
        return self._start(f"supervisor {number}", ["manage.py", "run_leased_scheduler"])

    def add_jobs(self, count: int) -> Jobs:
        """Add jobs of one second; return them with an instant from which on every second of each counts."""
        return self.wait_until_planned(self.prepare_jobs(count))

    def wait_until_planned(self, jobs: Jobs) -> Jobs:
        """Return the jobs with the due time that a scheduler has given them."""
        states = JobState.objects.using(self.database.alias).filter(job__in=jobs.ids)

        def find() -> Sequence[int] | None:
            planned = [state.next_due_at_ms for state in states.all() if state.next_due_at_ms is not None]
            return planned if len(planned) == len(jobs.ids) else None

        what = f"{len(jobs.ids)} jobs to be planned"
        return replace(jobs, first_due_ms=max(wait_until(find, what, within_s=_SETTLE_S)))

    def prepare_jobs(self, count: int) -> Jobs:
        """Add jobs of one second that nobody schedules yet, so it is not known when they first come due."""
        return add_jobs(self.database.alias, count, every_s=1, first_due_ms=next_second_ms() - 1000)

    def brew_storm(self, count: int) -> Jobs:
        """Add jobs that come due once, together, as soon as all of them are planned; return when they are."""
        first_due_ms = next_second_ms(after_s=self.timing.poll_interval_s + 1 + count / _PLANNED_IN_1_S)
        jobs = add_jobs(self.database.alias, count, every_s=_DAY_S, first_due_ms=first_due_ms)
        states = JobState.objects.using(self.database.alias).filter(next_due_at_ms=first_due_ms)
        left_s = (first_due_ms - now_ms()) / 1000
        wait_until(lambda: states.count() == count, f"{count} jobs to be planned", within_s=left_s, every_s=0.1)
        return jobs

    def remove_jobs(self, jobs: Jobs) -> None:
        remove_jobs(self.database.alias, jobs)

    def stop_supervisors(self) -> None:
        """Stop all that run, politely."""
        running = self.running_supervisors()
        for process in running:
            process.terminate()
        for process in running:
            code = process.wait_for_exit(within_s=_SETTLE_S)
            assert code == 0, f"{process}:\n{process.read_log()}"

    def running_supervisors(self) -> Sequence[Process]:
        return [process for process in self._processes if process is not self._worker and process.is_alive]

    def run_command(self, name: str, *arguments: str) -> Process:
        """Start a management command, and do not wait."""
        return self._start(name, ["manage.py", name, *arguments])

    def request_hand_over(self) -> int:
        """Ask the holder to hand over, without the second that a command takes to start; return when."""
        with open_leases(self.database.alias) as leases:
            leases.read([])  # connects
            requested_at_ms = now_ms()
            assert request_hand_overs(leases, ["default"])
        return requested_at_ms

    # Looking

    @property
    def polite_gap_ms(self) -> int:
        """The longest that a tenant is without a holder when a process stops politely, or is asked to hand over."""
        return 100 if self.database.announces_releases else round(self.timing.poll_interval_s * 1000) + 200

    @property
    def own_database_server(self) -> OwnServer:
        """The server of its database; only of a fleet on own servers."""
        return self.servers[_SERVER_OF_VENDOR[connections[self.database.alias].vendor]]

    @property
    def own_broker(self) -> OwnServer:
        """The server of its broker; only of a fleet on own servers."""
        return self.servers["redis" if self.broker.url.startswith("redis") else "rabbitmq"]

    @property
    def supervisors(self) -> Sequence[Process]:
        """All that were started, dead or alive."""
        return [process for process in self._processes if process is not self._worker]

    def read_lease(self) -> SchedulerLease | None:
        return SchedulerLease.objects.using(self.database.alias).first()

    def find_holder(self) -> Process | None:
        """Return the process that the lease row names, dead or alive."""
        lease = self.read_lease()
        if lease is None or not lease.holder_id:
            return None
        pid = int(lease.holder_id.rsplit("-", 2)[1])
        return next(process for process in self._processes if process.pid == pid)

    def find_other_holder(self, old: Process, *, within_s: float) -> Process | None:
        """Return the holder as soon as that is another one, if it is in time."""

        def find() -> Process | None:
            holder = self.find_holder()
            return holder if holder is not old else None

        return try_until(find, within_s=within_s, every_s=0.005)

    def wait_for_holder(self, *, other_than: Process | None = None) -> Process:
        """Return the process that holds the lease; a takeover has time enough, for nothing is judged here."""

        def find() -> Process | None:
            holder = self.find_holder()
            return holder if holder is not other_than else None

        bound_s = 2 * self.timing.lease_ttl_s + _START_S
        return wait_until(find, f"a holder other than {other_than}", within_s=bound_s, every_s=0.005)

    def read_claimed(self) -> frozenset[str]:
        """Return the task ids of what is claimed and not confirmed."""
        claimed = Occurrence.objects.using(self.database.alias).filter(state="claimed")
        return frozenset(claimed.values_list("task_id", flat=True))

    def read_last_seen_ms(self, process: Process) -> int:
        """Return when a supervisor last reported that it lives; 0: it never did."""
        rows = SchedulerProcess.objects.using(self.database.alias).filter(pid=process.pid)
        return rows.values_list("last_seen_at_ms", flat=True).first() or 0

    @property
    def tap(self) -> Tap:
        assert self._tap is not None, "start() or open_tap() first"
        return self._tap

    def read_runs(self) -> Sequence[str]:
        """Return the task id of each run so far."""
        return read_runs(self._record_file)

    def wait_for_message(self, jobs: Jobs, *, due_from_ms: int, within_s: float = _SETTLE_S) -> None:
        """Wait until all jobs have sent something that was due at that instant or later."""
        wait_until(
            lambda: len({m.task_id for m in self.tap.messages if m.due_at_ms >= due_from_ms}) >= len(jobs.ids),
            f"a message of each job, due from {due_from_ms}",
            within_s=within_s,
        )

    def wait_for_confirms(self) -> None:
        """Wait until nothing is in anybody's hand, a predecessor's batch included."""
        within_s = self.timing.publish_timeout_s + _SETTLE_S
        wait_until(lambda: not self.read_claimed(), "all claims to be confirmed", within_s=within_s)

    def settle(self, jobs: Jobs, *, until_ms: int) -> Account:
        """Wait until all that came due before ``until_ms`` is dealt with, and compare it with what arrived and ran.

        What is not dealt with in time is for the account to show, and for the test to judge.
        """
        wait_for_instant(until_ms)
        within_s = self.timing.publish_timeout_s + _SETTLE_S
        try_until(lambda: self._is_dealt_with(self._draw_account(jobs, until_ms)), within_s=within_s, every_s=0.1)
        return self._draw_account(jobs, until_ms)

    def finish(self, jobs: Jobs, *, until_ms: int) -> Account:
        """Settle, stop all supervisors, let the worker come to the end of its queue, and compare."""
        self.settle(jobs, until_ms=until_ms)
        self.stop_supervisors()
        if self._worker is not None:
            wait_until(self._is_worker_through, "every message to be run or dropped", within_s=_SETTLE_S, every_s=0.1)
        return self._draw_account(jobs, until_ms)

    # Inside

    def _draw_account(self, jobs: Jobs, until_ms: int) -> Account:
        period = range(jobs.first_due_ms, until_ms)
        return draw_up(jobs.due_until(until_ms), period=period, messages=self.tap.messages, runs=self.read_runs())

    def _is_dealt_with(self, account: Account) -> bool:
        return not (account.lost or (self._worker and account.not_run) or self.read_claimed())

    def _is_worker_through(self) -> bool:
        assert self._worker is not None
        dropped = self._worker.read_log().count("Dropped a second copy")
        return len(self.read_runs()) + dropped == len(self.tap.messages)

    def _start(self, name: str, arguments: Sequence[str], **environment: str) -> Process:
        common = {
            "DJANGO_SETTINGS_MODULE": "example_project.settings",
            "EXAMPLE_BROKER_URL": self.broker.url,
            "EXAMPLE_DATABASE_URL": self.database.url,
            "EXAMPLE_DATA_DIR": str(self._folder / "data"),
            "EXAMPLE_LEASED_CRON": json.dumps(dict(self.leased_cron)),
            "EXAMPLE_QUEUE": self.broker.queue,
            "EXAMPLE_RECORD_FILE": str(self._record_file),
        }
        process = Process(
            name,
            arguments,
            environment={**os.environ, **common, **self.environment, **environment},
            log=self._folder / f"{len(self._processes)}.log",
        )
        self._processes.append(process)
        return process
