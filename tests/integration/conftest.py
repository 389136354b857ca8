"""What the integration tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from pytest_django import Settings

from tests.integration.fixed_clock import fix_clock
from tests.integration.scheduling_bench import SchedulingBench


@pytest.fixture
def bench(database_alias: str) -> Iterator[SchedulingBench]:
    """Yield a tenant whose lease we hold at epoch 1, without jobs, on each vendor in turn."""
    with closing(SchedulingBench(database_alias)) as bench:
        bench.hold_lease()
        yield bench


@pytest.fixture
def alias(database_alias: str, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> str:
    """Return the database of the tenant ``default``, on each vendor in turn, whose clock stands still."""
    settings.LEASED_CRON = {"TENANTS": {"OPTIONS": {"alias": database_alias}}}
    fix_clock(monkeypatch)
    return database_alias
