"""The system checks: each id, what raises it, and that the ordinary ones open no connection."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest
from django.apps import apps
from django.core.checks import CheckMessage, Tags
from django.core.checks.registry import registry
from django.db import NotSupportedError, OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from pytest_django import Settings

from django_leased_cron import checks
from django_leased_cron.tenants import Tenant
from tests.unit.conftest import UseDatabases

OWN = f"{__name__}.QueryingSource"
SQLITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": "/nowhere/db"}


class QueryingSource:
    """A source that asks a database for its tenants; here it answers, or fails, as the test says."""

    def __init__(self, *, answer: Sequence[Tenant] | Exception) -> None:
        self.answer = answer

    def list_tenants(self) -> Sequence[Tenant]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Connection(BaseDatabaseWrapper):
    """A connection to a server that is not at hand: old, of another vendor, with another driver, or down."""

    def __init__(
        self, *, vendor: str, driver: str = "?", name: str = "?", version: tuple[int, ...] | Exception = ()
    ) -> None:
        # Not the original's: it builds what only a real backend has.
        self.vendor = vendor
        self.Database = ModuleType(driver)
        self.display_name = name
        self.version = version
        self.settings_dict = {"NAME": "shop", "HOST": "db", "PORT": "", "OPTIONS": {}}

    def get_database_version(self) -> tuple[int, ...]:
        if isinstance(self.version, Exception):
            raise self.version
        return self.version


def run(*databases: str) -> list[CheckMessage]:
    """Run the app's own checks; Django's would look for the databases of the real project."""
    ours = [check for check in registry.registered_checks if check.__module__ == checks.__name__]
    return [message for check in ours for message in check(app_configs=None, databases=databases or None)]


def run_one(*databases: str) -> CheckMessage:
    (message,) = run(*databases)
    return message


def own_source(answer: Sequence[Tenant] | Exception) -> dict[str, Any]:
    return {"TENANTS": {"BACKEND": OWN, "OPTIONS": {"answer": answer}}}


def test_every_id_is_documented_and_unique() -> None:
    """The table of the module has each id once, and the code raises exactly those."""
    documented = re.findall(r"^``(leased_cron\.[EW]\d{3})``", inspect.getdoc(checks) or "", flags=re.MULTILINE)
    raised = re.findall(r'id="(leased_cron\.[EW]\d{3})"', inspect.getsource(checks))
    assert len(documented) == len(set(documented))
    assert set(documented) == set(raised)


@pytest.mark.parametrize(
    ("check", "tag"),
    [
        (checks.check_settings, "leased_cron"),
        (checks.check_installed_apps, "leased_cron"),
        (checks.check_tenants, "leased_cron"),
        (checks.check_databases, Tags.database),
    ],
)
def test_checks_are_registered_under_their_tags(check: Any, tag: str) -> None:
    """`manage.py check --tag leased_cron` runs the ordinary ones; the one that asks databases is Django's kind."""
    assert check in registry.registered_checks
    assert check.tags == (tag,)


def test_a_project_that_is_right_gets_no_message() -> None:
    """The project of the tests passes, without any connection (the tests would refuse one here)."""
    assert run() == []


def test_each_problem_of_the_settings_is_a_message(settings: Settings) -> None:
    """The same problems as the loader's, with their hints."""
    settings.LEASED_CRON = {"LEASE_TLL": 3, "BATCH_SIZE": 0}
    first, second = sorted(run(), key=lambda message: message.msg)
    assert (first.id, second.id) == ("leased_cron.E001", "leased_cron.E001")
    assert str(first) == (
        "LEASED_CRON: (leased_cron.E001) BATCH_SIZE is 0.\n\tHINT: Write a whole number from 1 to 10000."
    )
    assert second.hint == "Did you mean 'LEASE_TTL'?"


def test_missing_django_celery_beat_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it there are no jobs to schedule."""
    monkeypatch.setattr(apps, "is_installed", lambda name: name != "django_celery_beat")
    assert run_one().id == "leased_cron.E002"


def test_backend_that_cannot_be_built_is_said_once(settings: Settings) -> None:
    """Not again by the checks that ask databases."""
    settings.LEASED_CRON = {"TENANTS": {"BACKEND": "nowhere.Tenants"}}
    message = run_one("default")
    assert message.id == "leased_cron.E003"
    assert "'nowhere.Tenants'" in message.msg


def test_list_that_cannot_work_is_said_once(settings: Settings) -> None:
    """An alias that DATABASES does not have."""
    settings.LEASED_CRON = {"TENANTS": {"OPTIONS": {"alias": "nowhere"}}}
    message = run_one("default")
    assert message.id == "leased_cron.E004"
    assert "'nowhere'" in message.msg


def test_two_tenants_in_one_database_are_said(settings: Settings, use_databases: UseDatabases) -> None:
    """Two aliases that lead to the same file."""
    use_databases(one=SQLITE, two=SQLITE)
    settings.LEASED_CRON = {
        "TENANTS": {"BACKEND": "django_leased_cron.tenants.DatabaseTenants", "OPTIONS": {"aliases": ["one", "two"]}}
    }
    message = run_one()
    assert message.id == "leased_cron.E004"
    assert "lead to one database" in message.msg


@pytest.mark.parametrize("vendor", ["oracle", "microsoft", "unknown"])
def test_vendor_that_is_not_supported_is_named(use_databases: UseDatabases, vendor: str) -> None:
    """Never a silent wrong clock."""
    use_databases()["default"] = Connection(vendor=vendor)
    message = run_one()
    assert message.id == "leased_cron.E005"
    assert repr(vendor) in message.msg


@pytest.mark.parametrize(
    ("vendor", "driver", "wanted"),
    [("postgresql", "psycopg2", "psycopg 3"), ("mysql", "pymysql", "mysqlclient")],
)
def test_driver_that_is_not_supported_is_named(
    use_databases: UseDatabases, vendor: str, driver: str, wanted: str
) -> None:
    """Both the one that is there and the one that is needed."""
    use_databases()["default"] = Connection(vendor=vendor, driver=driver)
    message = run_one()
    assert message.id == "leased_cron.E006"
    assert repr(driver) in message.msg
    assert wanted in message.msg


@pytest.mark.parametrize(("vendor", "driver"), [("postgresql", "psycopg"), ("mysql", "MySQLdb")])
def test_driver_that_is_supported_gets_no_message(use_databases: UseDatabases, vendor: str, driver: str) -> None:
    """The two drivers that the extras install."""
    use_databases()["default"] = Connection(vendor=vendor, driver=driver)
    assert run() == []


@pytest.mark.parametrize(
    ("connection", "words"),
    [
        (
            Connection(vendor="mysql", driver="MySQLdb", name="MariaDB", version=(10, 5, 23)),
            "MariaDB 10.5.23 is too old",
        ),
        (Connection(vendor="sqlite", name="SQLite", version=(3, 34, 1)), "SQLite 3.34.1 is too old"),
        (
            Connection(vendor="mysql", driver="MySQLdb", version=NotSupportedError("MySQL 8 or later is required")),
            "MySQL 8 or later is required",
        ),
    ],
)
def test_version_that_is_not_supported_is_named(
    use_databases: UseDatabases, connection: Connection, words: str
) -> None:
    """Whether we find out or Django does."""
    use_databases()["default"] = connection
    message = run_one("default")
    assert message.id == "leased_cron.E007"
    assert words in message.msg


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("PostgreSQL", (14, 0)),
        ("MySQL", (8, 0, 11)),
        ("MariaDB", (10, 6, 1)),
        ("MariaDB", (11, 4)),
        ("SQLite", (3, 35)),
    ],
)
def test_oldest_supported_versions_get_no_message(
    use_databases: UseDatabases, name: str, version: tuple[int, ...]
) -> None:
    """The limits themselves are supported."""
    use_databases()["default"] = Connection(vendor="sqlite", name=name, version=version)
    assert run("default") == []


def test_database_that_does_not_answer_is_said_only_if_asked(use_databases: UseDatabases) -> None:
    """Ordinary checks pass while the database is down."""
    use_databases()["default"] = Connection(vendor="sqlite", version=OperationalError("connection refused"))
    assert run() == []
    message = run_one("default")
    assert message.id == "leased_cron.E008"
    assert "connection refused" in message.msg


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({}, ["transaction_mode", "init_command"]),
        ({"transaction_mode": "immediate"}, ["init_command"]),
        ({"init_command": "PRAGMA synchronous=NORMAL; PRAGMA journal_mode = WAL"}, ["transaction_mode"]),
    ],
)
def test_sqlite_without_its_settings_gets_a_warning_with_them(
    use_databases: UseDatabases, options: dict[str, Any], missing: list[str]
) -> None:
    """The hint has what is missing, to copy, and not what is there."""
    use_databases(default=SQLITE | {"OPTIONS": options})
    message = run_one()
    assert message.id == "leased_cron.W001"
    assert re.findall(r'"(transaction_mode|init_command)":', message.hint or "") == missing


@pytest.mark.parametrize(
    "entry",
    [
        SQLITE | {"OPTIONS": {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL;"}},
        SQLITE | {"NAME": ":memory:"},
    ],
)
def test_sqlite_that_is_right_gets_no_warning(use_databases: UseDatabases, entry: dict[str, Any]) -> None:
    """With the settings, or in memory, where no other process can be in the way."""
    use_databases(default=entry)
    assert run() == []


def test_own_source_is_asked_only_with_the_databases(settings: Settings, use_databases: UseDatabases) -> None:
    """Its list may come from a database; then its tenants' databases are checked too."""
    use_databases(default=SQLITE, acme=SQLITE | {"NAME": "/nowhere/acme"})["acme"] = Connection(vendor="oracle")
    settings.LEASED_CRON = own_source([Tenant(key="acme", alias="acme")])
    assert run() == run("default") == []
    assert run_one("acme").id == "leased_cron.E005"
    settings.LEASED_CRON = own_source([Tenant(key="acme", alias="nowhere")])
    assert run_one("default").id == "leased_cron.E004"


def test_own_source_that_cannot_list_is_a_warning(settings: Settings) -> None:
    """An error would keep `migrate` from creating the table that is missing."""
    settings.LEASED_CRON = own_source(OperationalError("no such table: shops"))
    message = run_one("default")
    assert message.id == "leased_cron.W002"
    assert "no such table: shops" in message.msg
    assert not message.is_serious()
