"""Solar schedules from a database's rows to a claim."""

from __future__ import annotations

import dataclasses
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError
from django_celery_beat.models import SolarSchedule

from django_leased_cron import wiring
from django_leased_cron.conf import get_settings
from django_leased_cron.core.claiming import ClaimRules
from django_leased_cron.core.outbox import ChangeKind
from django_leased_cron.solar import CelerySolarCalculator
from django_leased_cron.tenants import Tenant
from tests.integration.leased_jobs import create_job, read, run
from tests.integration.scheduling_bench import NOW_MS, SchedulingBench

HOUR_MS = 3_600_000


def test_solar_job_fires_at_each_sunset_once(bench: SchedulingBench) -> None:
    """However the database writes the place: New York, 15 January 2027 and the day after."""
    schedule = bench.insert(SolarSchedule(event="sunset", latitude=Decimal("40.7128"), longitude=Decimal("-74.006")))
    job = bench.job(solar=schedule)
    bench.plan()
    sunset_ms = bench.state(job).next_due_at_ms
    assert sunset_ms is not None
    assert sunset_ms == pytest.approx(NOW_MS + 13.9 * HOUR_MS, abs=0.1 * HOUR_MS)  # 16:53 local time
    [occurrence] = bench.claim(sunset_ms).claimed
    assert occurrence.due_at_ms == sunset_ms
    next_ms = bench.state(job).next_due_at_ms
    assert next_ms is not None
    assert next_ms - sunset_ms == pytest.approx(24 * HOUR_MS, abs=0.05 * HOUR_MS)
    assert bench.plan(sunset_ms) == []


def test_extra_that_was_missing_is_missed_until_the_next_term(
    bench: SchedulingBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody need touch the row: the first pass of a term examines it again, and it fires for nothing past."""
    schedule = bench.insert(SolarSchedule(event="sunset", latitude=Decimal("40.7128"), longitude=Decimal("-74.006")))
    job = bench.job(solar=schedule)
    with monkeypatch.context() as poorer:
        poorer.setattr(bench, "rules", dataclasses.replace(bench.rules, solar_calculator=None))
        bench.plan()
        assert "django-leased-cron[solar]" in bench.state(job).error
    assert bench.plan(NOW_MS + 24 * HOUR_MS) == []
    assert bench.plan(NOW_MS + 24 * HOUR_MS, with_flagged=True) == [ChangeKind.FLAGGED]
    state = bench.state(job)
    assert (state.error, state.error_since_ms) == ("", None)
    assert state.next_due_at_ms == pytest.approx(NOW_MS + 37.9 * HOUR_MS, abs=0.1 * HOUR_MS)
    assert bench.plan(NOW_MS + 24 * HOUR_MS, with_flagged=True) == []
    assert bench.occurrences() == []


def test_due_times_are_listed(alias: str) -> None:
    """Of a job that no scheduler has planned yet."""
    schedule = SolarSchedule(event="sunset", latitude=Decimal("40.7128"), longitude=Decimal("-74.006"))
    SolarSchedule.objects.using(alias).bulk_create([schedule])
    create_job(alias, "lamps", solar=SolarSchedule.objects.using(alias).get())
    lines = read("next", "-n", "2")
    assert [line["due_at"][:16] for line in lines] == ["2027-01-15T21:53", "2027-01-16T21:54"]


def test_solar_job_is_imported_where_the_extra_is_not_installed(
    alias: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which machine computes the sun is not for the import to know; what no place has is refused all the same."""
    monkeypatch.setitem(sys.modules, "ephem", None)
    place = {"event": "sunset", "latitude": 40.7128, "longitude": -74.006}
    source = tmp_path / "jobs.json"
    source.write_text(json.dumps([{"job": "lamps", "task": "street.light", "schedule": {"solar": place}}]))
    run("import", str(source))
    [exported] = json.loads(run("export"))
    assert exported["schedule"] == {"solar": place}
    source.write_text(json.dumps([exported | {"schedule": {"solar": place | {"latitude": 91}}}]))
    with pytest.raises(CommandError, match="degrees from -90 to 90"):
        run("import", str(source))


@pytest.mark.django_db
def test_scheduler_knows_where_the_sun_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calculator reaches the rules that every term plans and claims by."""
    given: list[ClaimRules] = []

    def build_rules(**values: Any) -> ClaimRules:
        given.append(ClaimRules(**values))
        return given[-1]

    monkeypatch.setattr(wiring, "ClaimRules", build_rules)
    tenant = Tenant(key="acme", alias="default")
    wiring.SupervisorBuilder(get_settings(), [tenant], only=(), emit=lambda _: None).build()
    [rules] = given
    assert isinstance(rules.solar_calculator, CelerySolarCalculator)
