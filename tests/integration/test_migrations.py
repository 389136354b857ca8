"""The migrations, on every supported database."""

from __future__ import annotations

import io

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connections


def _find_tables(alias: str) -> set[str]:
    with connections[alias].cursor() as cursor:
        names = connections[alias].introspection.table_names(cursor)
    return {name for name in names if name.startswith("leased_cron_")}


@pytest.mark.django_db
def test_models_and_migrations_agree() -> None:
    """A model changed without its migration is caught here."""
    output = io.StringIO()
    call_command("makemigrations", check=True, dry_run=True, stdout=output)
    assert output.getvalue().strip() == "No changes detected"


def test_migrations_run_backwards_and_forwards(database_alias: str) -> None:
    """Backwards leaves no table behind, and forwards builds every table anew."""
    expected = {model._meta.db_table for model in apps.get_app_config("leased_cron").get_models()}
    assert _find_tables(database_alias) == expected
    try:
        call_command("migrate", "leased_cron", "zero", database=database_alias, verbosity=0)
        assert _find_tables(database_alias) == set()
    finally:
        call_command("migrate", database=database_alias, verbosity=0)
    assert _find_tables(database_alias) == expected
