"""What the integration tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.integration.scheduling_bench import SchedulingBench


@pytest.fixture
def bench(database_alias: str) -> Iterator[SchedulingBench]:
    """Yield a tenant whose lease we hold at epoch 1, without jobs, on each vendor in turn."""
    with ExitStack() as cleanup:
        bench = SchedulingBench(database_alias, cleanup)
        bench.hold_lease()
        yield bench
