"""What the integration tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.integration.scheduling_bench import SchedulingBench


@pytest.fixture
def bench(database_alias: str) -> Iterator[SchedulingBench]:
    """Yield a tenant whose lease we hold at epoch 1, without jobs, on each vendor in turn."""
    with closing(SchedulingBench(database_alias)) as bench:
        bench.hold_lease()
        yield bench
