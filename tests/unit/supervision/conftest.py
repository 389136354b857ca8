"""What tests of supervision share."""

from __future__ import annotations

import pytest

from tests.unit.supervision.process import Process


@pytest.fixture
def process() -> Process:
    """Return a process with a tenant that has no jobs and was never scheduled."""
    return Process()
