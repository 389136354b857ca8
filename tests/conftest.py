"""What all tests share: real databases of their own on every vendor, and the brokers.

``database_alias`` is for tests that commit: it runs the test once for each vendor, on a database that holds no rows
of this app or of django-celery-beat, without a transaction around it. Any thread may use it; threads close their
connections. ``pytest.mark.django_db`` is for tests that do not care, on ``default``, rolled back.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.db import connections, transaction
from django.test.utils import setup_databases, teardown_databases
from pytest_django import DjangoDbBlocker

from tests.servers import SERVERS, describe_servers, require_server


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sqlite-only", action="store_true", help="leave out what needs a server: other databases, brokers"
    )


def pytest_report_header(config: pytest.Config) -> list[str]:
    return ["servers: none wanted"] if config.getoption("--sqlite-only") else describe_servers()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--sqlite-only"):
        return
    left_out = [item for item in items if _needs_server(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _needs_server(item: pytest.Item) -> bool:
    assert isinstance(item, pytest.Function)
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return parameters.get("database_alias") in SERVERS or not {"redis_url", "rabbitmq_url"}.isdisjoint(
        item.fixturenames
    )


@pytest.fixture(scope="session")
def _create_database(
    django_test_environment: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[Callable[[str], None]]:
    """Create and migrate an alias's database when first asked for; drop all of them at the end."""
    undo_by_alias: dict[str, Any] = {}

    def create(alias: str) -> None:
        if alias not in undo_by_alias:
            settings.SQLITE_FOLDER.mkdir(exist_ok=True)
            undo_by_alias[alias] = setup_databases(
                verbosity=0, interactive=False, aliases={alias: False}, serialized_aliases=[]
            )

    yield create
    with django_db_blocker.unblock():
        for alias, undo in undo_by_alias.items():
            if alias == "postgres":
                _end_other_sessions(alias)
            teardown_databases(undo, verbosity=0)
    shutil.rmtree(settings.SQLITE_FOLDER, ignore_errors=True)


def _end_other_sessions(alias: str) -> None:
    # PostgreSQL drops no database that somebody is connected to, such as a process that a test froze or killed.
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def database_alias(
    request: pytest.FixtureRequest,
    _create_database: Callable[[str], None],
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[str]:
    """Yield the alias of a real database of each vendor in turn, without rows."""
    alias: str = request.param
    if alias in SERVERS:
        require_server(alias)
    with django_db_blocker.unblock():
        _create_database(alias)
        _empty_tables(alias)
        yield alias
        connections[alias].close()


@pytest.fixture
def database_url(database_alias: str) -> str:
    """Return the same database as a URL, as the example project takes it."""
    if database_alias not in SERVERS:
        return f"sqlite:///{settings.DATABASES[database_alias]['NAME']}"
    return f"{SERVERS[database_alias].url.rstrip('/')}/{settings.DATABASE_NAME}"


@pytest.fixture(scope="session")
def redis_url() -> str:
    return require_server("redis").url


@pytest.fixture(scope="session")
def rabbitmq_url() -> str:
    return require_server("rabbitmq").url


def _empty_tables(alias: str) -> None:
    connection = connections[alias]
    models = [
        model for label in ("leased_cron", "django_celery_beat") for model in apps.get_app_config(label).get_models()
    ]
    # Not TRUNCATE: on small tables it is many times slower than DELETE.
    with connection.constraint_checks_disabled(), transaction.atomic(using=alias), connection.cursor() as cursor:
        for model in models:
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(model._meta.db_table)}")
