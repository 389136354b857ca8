"""Where tenants come from, and what a list of them must keep to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pytest_django import Settings

from django_leased_cron.conf import build_settings
from django_leased_cron.exceptions import ConfigurationError
from django_leased_cron.tenants import Tenant, TenantSource, build_tenant_source, find_tenant_alias
from tests.unit.conftest import UseDatabases

OWN = f"{__name__}.Shops"


class Shops:
    """A project's own source."""

    def __init__(self, *, tenants: Sequence[Tenant] = ()) -> None:
        self.tenants = tenants

    def list_tenants(self) -> Sequence[Tenant]:
        return self.tenants


class Shopless:
    """A class that is no source."""


def build(backend: str, **options: object) -> TenantSource:
    path = backend if "." in backend else f"django_leased_cron.tenants.{backend}"
    return build_tenant_source(build_settings({"TENANTS": {"BACKEND": path, "OPTIONS": options}}))


def sqlite(name: str) -> dict[str, Any]:
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": name}


def postgres(**entry: Any) -> dict[str, Any]:
    return {"ENGINE": "django.db.backends.postgresql", "NAME": "shop"} | entry


def test_single_tenant_is_called_default() -> None:
    """Its key is fixed, its database is not."""
    assert build("SingleTenant").list_tenants() == (Tenant(key="default", alias="default"),)


def test_database_tenants_are_called_like_their_aliases(use_databases: UseDatabases) -> None:
    """All databases, or those named."""
    use_databases(default=sqlite("/a"), acme=sqlite("/b"), umbrella=sqlite("/c"))
    every = build("DatabaseTenants").list_tenants()
    assert [(tenant.key, tenant.alias) for tenant in every] == [
        ("default", "default"),
        ("acme", "acme"),
        ("umbrella", "umbrella"),
    ]
    assert [tenant.key for tenant in build("DatabaseTenants", aliases=["acme"]).list_tenants()] == ["acme"]


def test_own_source_is_called_with_its_options(use_databases: UseDatabases) -> None:
    """A dotted path to any class that lists tenants, and its list may change."""
    use_databases(default=sqlite("/a"), acme=sqlite("/b"))
    tenants = [Tenant(key="Acme & Söhne", alias="acme")]
    source = build(OWN, tenants=tenants)
    assert source.list_tenants() == tuple(tenants)
    tenants.append(Tenant(key="other", alias="default"))
    assert len(source.list_tenants()) == 2
    tenants.append(Tenant(key="third", alias="default"))
    with pytest.raises(ConfigurationError, match="lead to one database"):
        source.list_tenants()


@pytest.mark.parametrize(
    ("backend", "options", "words"),
    [
        ("nowhere.Tenants", {}, "'nowhere.Tenants' cannot be imported"),
        ("django_leased_cron.tenants.Nothing", {}, "Nothing"),
        ("SingleTenant", {"alas": "default"}, "{'alas': 'default'}"),
        (f"{__name__}.Shopless", {}, "has no list_tenants()"),
    ],
)
def test_source_that_cannot_be_built_is_named(backend: str, options: dict[str, Any], words: str) -> None:
    """The path or the options are in the message."""
    with pytest.raises(ConfigurationError) as caught:
        build(backend, **options)
    assert words in str(caught.value)


@pytest.mark.parametrize("key", ["", "a" * 192, "two\nlines", "a\tb", "nul\0"])
def test_impossible_tenant_key_is_refused(key: str) -> None:
    """Keys are part of task ids and log lines, and fit their column."""
    with pytest.raises(ConfigurationError) as caught:
        Tenant(key=key, alias="default")
    assert repr(key) in str(caught.value)


def test_longest_tenant_key_is_accepted() -> None:
    """The limit itself is allowed, in any script."""
    assert Tenant(key="ü" * 191, alias="default").key == "ü" * 191


def test_all_problems_of_a_list_are_said_at_once(use_databases: UseDatabases) -> None:
    """A key listed twice and an alias that does not exist."""
    use_databases(default=sqlite("/a"))
    tenants = [Tenant(key="a", alias="default"), Tenant(key="a", alias="default"), Tenant(key="b", alias="nowhere")]
    with pytest.raises(ConfigurationError) as caught:
        build(OWN, tenants=tenants).list_tenants()
    first, second = caught.value.problems
    assert first == "Tenant key 'a' is listed twice. List each tenant once."
    assert second == "Tenant 'b': DATABASES has no alias 'nowhere'. It has 'default'."


def test_database_without_a_backend_is_named(use_databases: UseDatabases) -> None:
    """An engine that is not installed is one tenant's problem, not a traceback."""
    use_databases(acme={"ENGINE": "nowhere.backend", "NAME": "a"})
    with pytest.raises(ConfigurationError, match=r"^Tenant 'acme': DATABASES\['acme'\] cannot be used: "):
        build("DatabaseTenants", aliases=["acme"]).list_tenants()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (sqlite("/data/a"), sqlite("/data/../data/a")),
        (postgres(), postgres(HOST="localhost", PORT=5432)),
        (postgres(HOST="127.0.0.1", USER="a"), postgres(PORT="5432", USER="b", OPTIONS={"connect_timeout": 2})),
        (postgres(NAME="", OPTIONS={"service": "shop"}), postgres(NAME="", OPTIONS={"service": "shop"})),
    ],
)
def test_two_aliases_of_one_database_are_refused(
    use_databases: UseDatabases, first: dict[str, Any], second: dict[str, Any]
) -> None:
    """Both tenants would schedule the same jobs."""
    use_databases(one=first, two=second)
    with pytest.raises(ConfigurationError, match=r"'one' \(alias 'one'\) and 'two' \(alias 'two'\) lead to one"):
        build("DatabaseTenants", aliases=["one", "two"]).list_tenants()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (sqlite("/data/a"), sqlite("/data/b")),
        (sqlite(":memory:"), sqlite(":memory:")),
        (postgres(), postgres(NAME="other")),
        (postgres(), postgres(PORT="5433")),
        (postgres(HOST="db1"), postgres(HOST="db2")),
        (postgres(NAME="", OPTIONS={"service": "a"}), postgres(NAME="", OPTIONS={"service": "b"})),
    ],
)
def test_two_databases_are_two(use_databases: UseDatabases, first: dict[str, Any], second: dict[str, Any]) -> None:
    """What differs in server or name is not taken for one database."""
    use_databases(one=first, two=second)
    assert len(build("DatabaseTenants", aliases=["one", "two"]).list_tenants()) == 2


def test_alias_is_found_by_tenant_key(settings: Settings) -> None:
    """The key in a message's header leads to the database; an unknown one leads nowhere."""
    assert find_tenant_alias("default") == "default"
    assert find_tenant_alias("acme") is None
    tenants = [Tenant(key="acme", alias="default")]
    settings.LEASED_CRON = {"TENANTS": {"BACKEND": OWN, "OPTIONS": {"tenants": tenants}}}
    assert find_tenant_alias("acme") == "default"
    assert find_tenant_alias("default") is None
