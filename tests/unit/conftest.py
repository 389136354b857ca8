"""What unit tests share."""

from __future__ import annotations

from typing import Any, Protocol

import pytest
from django.db.utils import ConnectionHandler

from django_leased_cron import checks, tenants


class UseDatabases(Protocol):
    def __call__(self, **databases: dict[str, Any]) -> ConnectionHandler: ...


@pytest.fixture
def use_databases(monkeypatch: pytest.MonkeyPatch) -> UseDatabases:
    """Return a function that puts other ``DATABASES`` (alias to entry) in the place of the project's."""

    def use(**databases: dict[str, Any]) -> ConnectionHandler:
        connections = ConnectionHandler({"default": {}} | databases)
        for module in (checks, tenants):
            monkeypatch.setattr(module, "connections", connections)
        return connections

    return use
