"""Somebody else keeps what the schedulers need locked, for longer than a lease lasts."""

from __future__ import annotations

import pytest

from tests.acceptance import faults
from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.forms import others_in_full
from tests.acceptance.ordeal import undergo

_LOCKED_S = 5.0
_BACK_WITHIN_S = 3.0


@pytest.mark.parametrize("stack", others_in_full("postgres-redis", "mariadb-rabbitmq"), indirect=True)
def test_lock_the_lease_row_for_longer_than_a_lease(fleet: Fleet, report: Report) -> None:
    """A session that somebody left open after SELECT … FOR UPDATE: nothing goes out, and all when it ends."""
    ordeal = undergo(fleet, faults.locked(fleet, faults.LOCK_OF_ALL_LEASES), seconds=_LOCKED_S)
    report(ordeal)
    ordeal.assert_nothing_was_harmed(within_s=_BACK_WITHIN_S)


@pytest.mark.full
@pytest.mark.parametrize("stack", ["sqlite-filesystem"], indirect=True)
def test_write_to_the_file_for_longer_than_a_lease(fleet: Fleet, report: Report) -> None:
    """SQLite has one writer at a time: nothing goes out, and all when it is done."""
    ordeal = undergo(fleet, faults.locked(fleet, faults.WRITE_OF_NOTHING), seconds=_LOCKED_S)
    report(ordeal)
    ordeal.assert_nothing_was_harmed(within_s=_BACK_WITHIN_S)
