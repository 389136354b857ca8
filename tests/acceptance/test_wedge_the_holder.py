"""A holder that lives and does nothing: its dispatch thread hangs, or there is no processor for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance import faults, hanging_settings
from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.ordeal import undergo

_SECONDS = 6.0
_SLACK_MS = 500
_IN_HAND = 3
_BUSY_PROCESSES = 8


@pytest.mark.full
@pytest.mark.parametrize("stack", ["postgres-redis", "mariadb-rabbitmq", "sqlite-filesystem"], indirect=True)
def test_hang_the_dispatch_thread_of_the_holder(fleet: Fleet, tmp_path: Path, report: Report) -> None:
    """Its keeper would renew; what it leaves undone is what tells. When it wakes up it sends nothing more."""
    file = tmp_path / "hangs"
    fleet.environment = {
        "DJANGO_SETTINGS_MODULE": hanging_settings.__name__,
        hanging_settings.FILE_VARIABLE: str(file),
    }
    ordeal = undergo(fleet, _hanging(fleet, file), seconds=_SECONDS)
    report(ordeal)
    ordeal.assert_nothing_was_harmed(within_s=1.0, outages=0)
    timing = fleet.timing
    assert timing.rescue_after_s is not None
    bound_s = timing.rescue_after_s + timing.poll_interval_s + timing.publish_timeout_s
    assert ordeal.account.worst_lateness_ms() <= bound_s * 1000 + _SLACK_MS
    assert ordeal.takeovers == 1


@pytest.mark.full
@pytest.mark.parametrize("stack", ["postgres-redis", "mariadb-rabbitmq", "sqlite-filesystem"], indirect=True)
def test_keep_all_processors_busy(fleet: Fleet, report: Report) -> None:
    """Some processes that count as fast as they can: everything is sent, later perhaps."""
    ordeal = undergo(fleet, faults.processors_busy(_BUSY_PROCESSES), seconds=_SECONDS)
    report(ordeal)
    ordeal.assert_nothing_was_harmed(within_s=3.0, sent_again=_IN_HAND, outages=1)


@contextmanager
def _hanging(fleet: Fleet, file: Path) -> Iterator[None]:
    file.write_text(str(fleet.wait_for_holder().pid))
    yield
    file.unlink()
