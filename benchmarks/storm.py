"""Many jobs due at one instant: ``python -m benchmarks.storm --jobs 10000``.

Runs on the example project's database and broker (see ``example_project/settings.py``), which it fills and empties.
In one run: the rate of a bare ``apply_async`` loop, the same number of jobs through lease, claim and confirm, and the
bare loop again: where other work shares the machine, the two bare rates tell how far to trust the ratio to their mean.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import statistics
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from unittest.mock import patch

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
django.setup()

from django.core.management import call_command  # noqa: E402 - the settings come first
from django.db.models import F, Max, Min  # noqa: E402
from django_celery_beat.models import IntervalSchedule, PeriodicTask  # noqa: E402

from django_leased_cron.conf import get_settings  # noqa: E402
from django_leased_cron.core.clock import BootTime  # noqa: E402
from django_leased_cron.core.publication import Publisher  # noqa: E402
from django_leased_cron.instrumentation import log_event  # noqa: E402
from django_leased_cron.models import JobState, Occurrence, SchedulerLease  # noqa: E402
from django_leased_cron.supervision.seat import TenantSeat  # noqa: E402
from django_leased_cron.tenants import get_tenant_source  # noqa: E402
from django_leased_cron.wiring import SupervisorBuilder  # noqa: E402
from example_project.celery import app  # noqa: E402

TASK = "example_project.tasks.noop"


def measure_bare_loop(jobs: int) -> float:
    """Return messages per second of beat's way to publish, with nothing around it."""
    app.loader.import_default_modules()
    task = app.tasks[TASK]
    with app.connection_for_write() as connection:
        producer = app.amqp.Producer(connection)
        task.apply_async(producer=producer)
        started = time.perf_counter()
        for number in range(jobs):
            task.apply_async((number,), producer=producer, headers={"periodic_task_name": f"job {number}"})
        return jobs / (time.perf_counter() - started)


def empty() -> None:
    for model in (Occurrence, JobState, PeriodicTask, SchedulerLease):
        model.objects.all().delete()
    with app.connection_for_write() as connection:
        app.amqp.queues[app.conf.task_default_queue].bind(connection.default_channel).purge()


def seed(jobs: int, *, due_in_s: float) -> int:
    """Create jobs that are all due at one whole second from now; return it in milliseconds."""
    due_at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=due_in_s)
    daily, _ = IntervalSchedule.objects.get_or_create(every=1, period=IntervalSchedule.DAYS)
    PeriodicTask.objects.bulk_create(
        [
            PeriodicTask(name=f"job {n}", task=TASK, args=f"[{n}]", interval=daily, start_time=due_at)
            for n in range(jobs)
        ],
        batch_size=1000,
    )
    return round(due_at.timestamp() * 1000)


def run_storm(jobs: int, *, lead_s: float, profile: cProfile.Profile | None) -> dict[str, float]:
    """Run a supervisor in this process until every job is sent."""
    due_at_ms = seed(jobs, due_in_s=lead_s)
    stop = threading.Event()
    if profile is not None:
        _profile_dispatch_threads(profile, due_at_ms / 1000)
    supervisor = SupervisorBuilder(
        get_settings(), get_tenant_source().list_tenants(), only=[], emit=log_event, app=app
    ).build()
    thread = threading.Thread(target=supervisor.run, args=(stop.wait,))
    thread.start()
    while JobState.objects.filter(fire_at_ms__isnull=False).count() < jobs and time.time() * 1000 < due_at_ms:
        time.sleep(0.2)
    planned = JobState.objects.filter(fire_at_ms=due_at_ms).count()
    time.sleep(max(0.0, due_at_ms / 1000 + 0.5 - time.time()))
    deadline = time.monotonic() + 300
    while Occurrence.objects.filter(state="sent").count() < jobs and time.monotonic() < deadline:
        time.sleep(0.25)
    stop.set()
    thread.join()
    sent = Occurrence.objects.filter(state="sent").aggregate(
        first=Min(F("sent_at_ms") - F("due_at_ms")), last=Max(F("sent_at_ms") - F("due_at_ms"))
    )
    return {"planned_before": planned, "first_late_s": sent["first"] / 1000, "last_late_s": sent["last"] / 1000}


def _profile_dispatch_threads(profile: cProfile.Profile, start_at: float) -> None:
    step = TenantSeat.step
    started = threading.Event()

    def step_profiled(seat: TenantSeat, publisher: Publisher) -> BootTime | None:
        if not started.is_set() and time.time() >= start_at - 0.2:
            started.set()
            profile.enable()
        return step(seat, publisher)

    patch.object(TenantSeat, "step", step_profiled).start()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--lead", type=float, default=None, help="Seconds to plan before they are due.")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    call_command("migrate", verbosity=0)
    empty()
    bare_rates = [measure_bare_loop(options.jobs)]
    empty()
    profile = cProfile.Profile() if options.profile else None
    lead_s = options.lead or 8 + options.jobs / 1500
    result = run_storm(options.jobs, lead_s=lead_s, profile=profile)
    empty()
    bare_rates.append(measure_bare_loop(options.jobs))
    empty()
    rate = options.jobs / result["last_late_s"]
    ratio = rate / statistics.mean(bare_rates)
    before, after = map(round, bare_rates)
    figures = {"jobs": options.jobs, "bare_rate_before": before, "bare_rate_after": after, "rate": round(rate)}
    sys.stdout.write(json.dumps(figures | {"ratio": round(ratio, 2)} | result) + "\n")
    if profile is not None:
        profile.disable()
        pstats.Stats(profile).strip_dirs().sort_stats("cumulative").print_stats(45)
    return 0


if __name__ == "__main__":
    sys.exit(main())
