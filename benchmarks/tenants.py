"""Many tenants in one database and one process: ``python -m benchmarks.tenants --tenants 2000 --jobs 20``.

PostgreSQL with a schema for each tenant, in a database of its own. Making the schemas takes minutes: ``--keep`` leaves
them for the next time.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.servers import SERVERS

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.schema_project.settings"
os.environ.setdefault("SCHEMA_PROJECT_DATABASE_URL", f"{SERVERS['postgres'].url}/leased_cron_bench_tenants")
os.environ.setdefault("SCHEMA_PROJECT_BROKER_URL", "memory://")  # nothing is due
os.environ.setdefault("SCHEMA_PROJECT_LOG_LEVEL", "WARNING")

import django

django.setup()

from django.db import connection  # noqa: E402

from benchmarks.figures import report, tell  # noqa: E402
from benchmarks.schemas import make_schemas  # noqa: E402
from benchmarks.usage import CpuMeter, read_cpu_s, read_peak_mb  # noqa: E402
from django_leased_cron.core.placement import MOST_UNEVEN  # noqa: E402
from django_leased_cron.models import SchedulerLease, SchedulerProcess  # noqa: E402
from tests.acceptance.processes import Process  # noqa: E402
from tests.acceptance.waiting import wait_until  # noqa: E402

TAKEOVER_GOAL_MS = 1000
IDLE_CPU_GOAL_S = 2.0
CONNECTIONS_GOAL = 8
_SETTLED_BELOW_S = 0.02
"""CPU seconds a second: what a process has to do after a takeover is done."""


@contextmanager
def create_database(*, keep: bool) -> Iterator[None]:
    """Have the database, and drop it unless it is to be kept."""
    name = connection.settings_dict["NAME"]
    with connection._nodb_cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
        if cursor.fetchone() is None:
            cursor.execute(f'CREATE DATABASE "{name}"')
    try:
        yield
    finally:
        connection.close()
        if not keep:
            with connection._nodb_cursor() as cursor:
                cursor.execute(f'DROP DATABASE "{name}"')


@contextmanager
def running_scheduler(name: str) -> Iterator[Process]:
    log = Path(tempfile.gettempdir()) / f"{connection.settings_dict['NAME']}_{name}.log"
    arguments = ["-m", "django", "run_leased_scheduler"]
    process = Process(name, arguments, environment=os.environ, log=log)
    try:
        yield process
    finally:
        process.kill()
        sys.stderr.write(log.read_text())
        log.unlink()


def count_held() -> int:
    return SchedulerLease.objects.exclude(holder_id="").filter(expires_at_ms__gt=0).count()


def free_leases() -> None:
    """Have nobody hold anything."""
    SchedulerLease.objects.update(holder_id="", expires_at_ms=0)
    SchedulerProcess.objects.all().delete()


def find_spread_ms(*, besides: Collection[str] = ()) -> int:
    """Return how long the first and the last takeover are apart, besides those of some tenants."""
    leases = SchedulerLease.objects.exclude(tenant_key__in=besides)
    times = list(leases.values_list("acquired_at_ms", flat=True))
    return max(times) - min(times)


def find_held_by(process: Process) -> set[str]:
    leases = SchedulerLease.objects.filter(holder_id__contains=f"-{process.pid}-")
    return set(leases.values_list("tenant_key", flat=True))


def are_shares_fair(processes: Sequence[Process], *, tenants: int) -> bool:
    """Return whether no move is worth it any more."""
    counts = [len(find_held_by(process)) for process in processes]
    return max(counts) - min(counts) < max(2, tenants / len(processes) * MOST_UNEVEN)


def wait_until_settled(process: Process) -> None:
    """Wait until it has planned what it took over and does nothing more of it."""
    while True:
        meter = CpuMeter(process.pid)
        meter.wait(3.0)
        if meter.process_s / 3.0 < _SETTLED_BELOW_S:
            return


def read_transactions() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
        (count,) = cursor.fetchone()
    return int(count)


def count_connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        )
        (count,) = cursor.fetchone()
    return int(count)


def count_threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def measure(tenants: int, *, jobs: int, idle_s: float) -> None:
    total = tenants * jobs
    free_leases()
    with running_scheduler("holder") as process:
        started_at, backends = time.monotonic(), CpuMeter(process.pid)
        wait_until(lambda: count_held() == tenants, "all leases", within_s=120)
        report(f"{tenants} tenants: takeover of free leases (ms)", find_spread_ms(), jobs=total, goal=TAKEOVER_GOAL_MS)
        tell(f"all held {time.monotonic() - started_at:.1f} s after the start")
        wait_until_settled(process)
        backends.look()
        report(f"{tenants} tenants: from the start to rest (s)", time.monotonic() - started_at, jobs=total)
        report(f"{tenants} tenants: CPU from the start to rest (s)", read_cpu_s(process.pid), jobs=total)
        report(f"{tenants} tenants: CPU of the database from the start to rest (s)", backends.database_s, jobs=total)
        meter, transactions = CpuMeter(process.pid), read_transactions()
        meter.wait(idle_s)
        minutes = idle_s / 60
        report(
            f"{tenants} tenants: idle CPU of the process (s a minute)",
            meter.process_s / minutes,
            jobs=total,
            goal=IDLE_CPU_GOAL_S,
        )
        report(f"{tenants} tenants: idle CPU of the database (s a minute)", meter.database_s / minutes, jobs=total)
        transactions = read_transactions() - transactions
        report(f"{tenants} tenants: transactions a minute", transactions / minutes, jobs=total)
        report(f"{tenants} tenants: connections", count_connections(), jobs=total, goal=CONNECTIONS_GOAL)
        report(f"{tenants} tenants: threads", count_threads(process.pid), jobs=total)
        report(f"{tenants} tenants: peak memory (MB)", read_peak_mb(process.pid), jobs=total)
        with running_scheduler("second") as second:
            wait_until(lambda: SchedulerProcess.objects.count() == 2, "a second process", within_s=60)
            started_at = time.monotonic()
            wait_until(lambda: are_shares_fair([process, second], tenants=tenants), "fair shares", within_s=600)
            report(f"{tenants} tenants: until shared fairly (s)", time.monotonic() - started_at, jobs=total)
            wait_until_settled(second)
            meter = CpuMeter(second.pid)
            meter.wait(idle_s)
            report(f"{tenants} tenants: CPU of one of two (s a minute)", meter.process_s / minutes, jobs=total)
            held = find_held_by(second)
            process.kill()
            wait_until(
                lambda: len(find_held_by(second)) == tenants,
                "the takeover",
                within_s=120,
            )
            report(
                f"{tenants} tenants: takeover from a killed holder (ms)",
                find_spread_ms(besides=held),
                jobs=total,
                goal=TAKEOVER_GOAL_MS,
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenants", type=int, nargs="+", default=[20, 2000])
    parser.add_argument("--jobs", type=int, default=20, help="For each tenant.")
    parser.add_argument("--idle-s", type=float, default=60.0)
    parser.add_argument("--keep", action="store_true", help="Do not drop the database at the end.")
    options = parser.parse_args()
    with create_database(keep=options.keep):
        for tenants in options.tenants:
            make_schemas(tenants, jobs=options.jobs)
            measure(tenants, jobs=options.jobs, idle_s=options.idle_s)
    return 0


if __name__ == "__main__":
    sys.exit(main())
