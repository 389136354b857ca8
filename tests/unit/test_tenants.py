"""Where tenants come from, and what a list of them must keep to."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pytest_django import Settings

from django_leased_cron.conf import build_settings
from django_leased_cron.exceptions import ConfigurationError
from django_leased_cron.tenants import Tenant, TenantSource, build_tenant_source, find_tenant
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
    assert find_tenant("default") == Tenant(key="default", alias="default")
    assert find_tenant("acme") is None
    tenants = [Tenant(key="acme", alias="default")]
    settings.LEASED_CRON = {"TENANTS": {"BACKEND": OWN, "OPTIONS": {"tenants": tenants}}}
    assert find_tenant("acme") == Tenant(key="acme", alias="default")
    assert find_tenant("default") is None


def test_source_that_finds_one_tenant_is_not_asked_for_all(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker wants to know at the start of each run."""
    acme = Tenant(key="acme", alias="default")
    settings.LEASED_CRON = {"TENANTS": {"BACKEND": OWN}}
    monkeypatch.setattr(Shops, "find_tenant", lambda self, key: acme if key == "acme" else None, raising=False)
    monkeypatch.setattr(Shops, "list_tenants", lambda self: pytest.fail("asked for all"))
    assert find_tenant("acme") == acme
    assert find_tenant("umbra") is None


SCHEMAS = {"ENGINE": "django_tenants.postgresql_backend", "NAME": "shop"}


def test_schemas_of_one_database_are_tenants_of_their_own(use_databases: UseDatabases) -> None:
    """Each once."""
    use_databases(default=SCHEMAS)
    tenants = [Tenant(key=key, alias="default", schema=key) for key in ("acme", "umbra")]
    assert build(OWN, tenants=tenants).list_tenants() == tuple(tenants)
    twice = [*tenants, Tenant(key="again", alias="default", schema="acme")]
    with pytest.raises(ConfigurationError, match="lead to one"):
        build(OWN, tenants=twice).list_tenants()


def test_schema_without_the_engine_of_django_tenants_is_refused(use_databases: UseDatabases) -> None:
    """Nothing else would find the tables of the tenant in the project's own code."""
    use_databases(default=postgres())
    with pytest.raises(ConfigurationError, match=r"django_tenants\.postgresql_backend"):
        build(OWN, tenants=[Tenant(key="acme", alias="default", schema="acme")]).list_tenants()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"TENANT_MODEL": None}, ["TENANT_MODEL is not set"]),
        ({"SHARED_APPS": []}, ["'django_leased_cron' to SHARED_APPS"]),
        ({"TENANT_APPS": []}, ["'django_leased_cron' to TENANT_APPS", "'django_celery_beat' to TENANT_APPS"]),
    ],
)
def test_schema_tenants_say_what_is_missing(
    use_databases: UseDatabases, settings: Settings, wrong: dict[str, Any], words: list[str]
) -> None:
    """All at once; nothing where all is right, apps by their configurations included."""
    right = {
        "TENANT_MODEL": "shop.Customer",
        "SHARED_APPS": ["django_leased_cron.apps.LeasedCronConfig"],
        "TENANT_APPS": ["django_celery_beat", "django_leased_cron"],
    }
    use_databases(default=SCHEMAS)
    for name, value in right.items():
        setattr(settings, name, value)
    build("SchemaTenants")
    for name, value in wrong.items():
        setattr(settings, name, value)
    with pytest.raises(ConfigurationError) as caught:
        build("SchemaTenants")
    assert len(caught.value.problems) == len(words)
    for problem, word in zip(caught.value.problems, words, strict=True):
        assert word in problem


def test_schema_tenants_want_the_engine_of_django_tenants(use_databases: UseDatabases) -> None:
    """Said alone: without it nothing else would help."""
    use_databases(default=postgres())
    with pytest.raises(ConfigurationError, match="ENGINE"):
        build("SchemaTenants")


def test_example_of_the_documentation_works(use_databases: UseDatabases, monkeypatch: pytest.MonkeyPatch) -> None:
    """The class of one's own, by its dotted path and with its options."""
    use_databases(acme=sqlite("/a"), initech_db=sqlite("/b"))
    text = Path("docs/how-to/schedule-several-databases.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(from collections.*?)```", text, re.DOTALL)
    module = ModuleType("shop_tenants")
    exec(compile(example, "the documentation", "exec"), module.__dict__)  # noqa: S102 - it is ours
    monkeypatch.setitem(sys.modules, "shop_tenants", module)
    source = build_tenant_source(
        build_settings({"TENANTS": {"BACKEND": "shop_tenants.Customers", "OPTIONS": {"region": "eu"}}})
    )
    assert [tenant.key for tenant in source.list_tenants()] == ["acme", "initech"]
    assert source.find_tenant("initech") == Tenant(key="initech", alias="initech_db")
    assert source.find_tenant("umbra") is None
