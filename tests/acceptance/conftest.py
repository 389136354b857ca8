"""A fleet for each test, the logs of its processes where the test fails, and the figures of all tests at the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from tests.acceptance.fleet import Fleet
from tests.acceptance.forms import SCALED
from tests.acceptance.stacks import STACKS

Report = Callable[[object], None]
_FIGURES = "figures"


@pytest.fixture(params=STACKS)
def stack(request: pytest.FixtureRequest) -> str:
    """Return the name of each combination of database and broker in turn."""
    name: str = request.param
    return name


@pytest.fixture
def fleet(stack: str, django_db_blocker: DjangoDbBlocker) -> Iterator[Fleet]:
    """Yield a fleet on a migrated database, without processes."""
    yield from _build_fleet(stack, django_db_blocker)


@pytest.fixture
def cuttable_fleet(stack: str, django_db_blocker: DjangoDbBlocker) -> Iterator[Fleet]:
    """Yield a fleet whose database and broker can be taken away; the database is not migrated."""
    yield from _build_fleet(stack, django_db_blocker, cuttable=True)


@pytest.fixture
def fleet_on_own_servers(stack: str, django_db_blocker: DjangoDbBlocker) -> Iterator[Fleet]:
    """Yield a fleet whose servers the test may do anything to; the database is migrated."""
    yield from _build_fleet(stack, django_db_blocker, on_own_servers=True)


@pytest.fixture
def report(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Report:
    """Take note of a test's figures: shown after all tests, and added to the file ``LEASED_CRON_RESULTS``."""

    def add(figures: object) -> None:
        record_property(_FIGURES, figures)
        path = os.environ.get("LEASED_CRON_RESULTS")
        if path:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(f"{request.node.name}: {figures}\n")

    return add


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and call.when == "call" and isinstance(item, pytest.Function):
        fleets = [value for value in item.funcargs.values() if isinstance(value, Fleet)]
        report.sections += [("processes", fleet.describe()) for fleet in fleets]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = [
        f"{report.nodeid.rpartition('::')[2]}: {value}"
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, value in report.user_properties
        if name == _FIGURES
    ]
    if lines:
        terminalreporter.section("figures")
        terminalreporter.write_line("\n".join(sorted(lines)))


def _build_fleet(
    stack: str, django_db_blocker: DjangoDbBlocker, *, cuttable: bool = False, on_own_servers: bool = False
) -> Iterator[Fleet]:
    with django_db_blocker.unblock():
        fleet = Fleet(stack, leased_cron=SCALED, cuttable=cuttable, on_own_servers=on_own_servers)
        try:
            if not cuttable:
                fleet.migrate()
            yield fleet
        finally:
            fleet.close()
