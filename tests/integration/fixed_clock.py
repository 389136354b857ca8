"""Commands and pages whose database clock stands still."""

from __future__ import annotations

import dataclasses
from typing import Any, Final, cast

import pytest

from django_leased_cron import status
from django_leased_cron.database import build_dialect, now
from django_leased_cron.database.dialect import Dialect
from django_leased_cron.job_tools import tenant_sessions

NOW: Final = "2027-01-15T08:00:00.000Z"
NOW_MS: Final = 1_800_000_000_000
SECOND: Final = 1000
TTL_MS: Final = 30 * SECOND


def fix_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every database's clock read :data:`NOW_MS`."""

    def build(alias: str) -> Dialect:
        return cast(Dialect, dataclasses.replace(cast(Any, build_dialect(alias)), now_ms=str(NOW_MS)))

    for module in (status, tenant_sessions, now):
        monkeypatch.setattr(module, "build_dialect", build)
