"""What the contract suites share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.contract.lease_stores import Stores


@pytest.fixture
def stores(database_alias: str) -> Iterator[Stores]:
    """Build lease stores on a database without rows, of each vendor in turn."""
    with ExitStack() as cleanup:
        yield Stores(database_alias, cleanup)
