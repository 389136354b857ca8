"""What the documentation lists is what the code has."""

from __future__ import annotations

import argparse
import json
import logging
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from django.apps import apps
from django.core.management.base import BaseCommand

from django_leased_cron import conf, instrumentation
from django_leased_cron.core.occurrence import OccurrenceState, SkipReason
from django_leased_cron.job_tools.problems import ProblemKind
from django_leased_cron.job_tools.transfer.definition import KEYS, POLICY_COLUMNS
from django_leased_cron.management import commands
from django_leased_cron.tenants import SHIPPED_BACKENDS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SOURCES = "\n".join(path.read_text() for path in sorted((ROOT / "django_leased_cron").rglob("*.py")))
MODELS = [model.__name__ for model in apps.get_app_config("leased_cron").get_models()]
COMMANDS = [module.name for module in iter_modules(commands.__path__)]


def read_tables(page: str, *, section: str = "") -> Iterator[list[list[str]]]:
    """Yield the tables of a page or of one of its sections: rows of cells, the heading first, without backquotes."""
    text = (DOCS / page).read_text()
    if section:
        [text] = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        lines = [line.strip("|\n ") for line in table.splitlines()]
        yield [[cell.strip() for cell in line.split(" | ")] for line in lines if not line.startswith("---")]


def read_table(page: str, heading: str, *, section: str = "") -> dict[str, list[str]]:
    """Return the rows, by their first cell, of the table whose first column has this heading."""
    [table] = [table for table in read_tables(page, section=section) if table[0][0] == heading]
    return {cells[0].strip("`"): cells[1:] for cells in table[1:]}


def show_default(default: object) -> str:
    if default is conf.DERIVED:
        return "`LEASE_TTL` / 3"
    text = repr(default).replace("'", '"').replace("datetime.", "")
    return f"`{text}`"


def find_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from find_parsers(subparser)


def read_options(command: BaseCommand) -> set[str]:
    """Return the long options of a command and its subcommands."""
    parsers = find_parsers(command.create_parser("manage.py", "any"))
    options = {option for parser in parsers for action in parser._actions for option in action.option_strings}
    return {option for option in options if option.startswith("--")}


class TestReference:
    @pytest.mark.parametrize(
        ("heading", "keys"), [("key", conf.KEYS), ("key of `TENANTS`", conf.TENANTS_KEYS)], ids=["settings", "tenants"]
    )
    def test_settings_and_their_defaults(self, heading: str, keys: dict[str, conf.Key]) -> None:
        """The tables have every key, in the order of the code, with its default."""
        table = read_table("reference/settings.md", heading)
        assert [(key, cells[0]) for key, cells in table.items()] == [
            (key, show_default(declared.default)) for key, declared in keys.items()
        ]

    def test_shipped_tenants_backends(self) -> None:
        """The table has each backend that can be used."""
        assert tuple(read_table("reference/settings.md", "shipped backend")) == SHIPPED_BACKENDS

    def test_system_checks(self) -> None:
        """The table has each id that some check gives, and no other."""
        given = re.findall(r'id="(leased_cron\.[A-Z]\d{3})"', SOURCES)
        assert list(read_table("reference/checks.md", "id")) == sorted(set(given))

    def test_scheduler_events_and_their_levels(self) -> None:
        """The table has each event, in the order of the code, with its level."""
        table = read_table("reference/events.md", "event", section="Of schedulers")
        expected = {name: logging.getLevelName(level) for name, level, _ in instrumentation.NAMES.values()}
        assert {name: cells[0] for name, cells in table.items()} == expected | {"supervisor.aborted": "WARNING"}

    def test_events_that_are_logged_where_they_happen(self) -> None:
        """The tables have each name that a log line carries by itself."""
        listed = {
            name
            for section in ("Of schedulers", "Of `migrate`", "Of workers")
            for name in read_table("reference/events.md", "event", section=section)
        }
        emitted = {name for name, _, _ in instrumentation.NAMES.values()}
        assert listed - emitted == set(re.findall(r'"event": "([a-z_.]+)"', SOURCES))

    def test_commands(self) -> None:
        """Each command has its section, and no other has."""
        sections = re.findall(r"^## (\w+)$", (DOCS / "reference/commands.md").read_text(), flags=re.MULTILINE)
        assert sorted(sections) == COMMANDS

    @pytest.mark.parametrize("command", COMMANDS)
    def test_options_of_commands(self, command: str) -> None:
        """The table of a command has each of its options."""
        table = read_table("reference/commands.md", "option", section=command)
        built = import_module(f"{commands.__name__}.{command}").Command()
        assert {option.split()[0] for option in table} == read_options(built) - read_options(BaseCommand())

    def test_problems_of_jobs(self) -> None:
        """The table has each kind that ``leased_jobs validate`` may find."""
        table = read_table("reference/commands.md", "problem", section="leased_jobs")
        assert list(table) == [str(kind) for kind in ProblemKind]

    def test_keys_of_an_export(self) -> None:
        """The example has each key of a job and of its policy, in the order of the code."""
        page = (DOCS / "reference/commands.md").read_text()
        [[job]] = [
            json.loads(example)
            for example in re.findall(r"```json\n(.*?)```", page, re.DOTALL)
            if '"policy"' in example
        ]
        assert tuple(job) == ("tenant", *KEYS)
        assert tuple(job["policy"]) == (*POLICY_COLUMNS, "paused_until")

    def test_models(self) -> None:
        """Each model has its section."""
        sections = re.findall(r"^## (\w+)$", (DOCS / "reference/models.md").read_text(), flags=re.MULTILINE)
        assert sections == MODELS

    @pytest.mark.parametrize("model", MODELS)
    def test_columns_of_models(self, model: str) -> None:
        """The table of a model has each of its columns."""
        fields = apps.get_model("leased_cron", model)._meta.concrete_fields
        table = read_table("reference/models.md", "column", section=model)
        assert sorted(table) == sorted(field.column for field in fields)

    @pytest.mark.parametrize(("heading", "values"), [("state", OccurrenceState), ("reason of `skipped`", SkipReason)])
    def test_states_and_reasons(self, heading: str, values: Sequence[str]) -> None:
        """The tables have each state of an occurrence and each reason for skipping one."""
        assert list(read_table("reference/models.md", heading)) == [str(value) for value in values]


class TestProtocol:
    def test_names_files_that_exist(self) -> None:
        """Whatever file or folder of the package a page names is there."""
        pages = "".join((DOCS / "explanation" / page).read_text() for page in ("protocol.md", "architecture.md"))
        named = set(re.findall(r"`(\w+/(?:\w+\.py)?|\w+\.py)`", pages))
        assert named
        assert [name for name in sorted(named) if not (ROOT / "django_leased_cron" / name).exists()] == []

    def test_names_functions_that_exist(self) -> None:
        """A name in parentheses after a file is defined in it."""
        page = (DOCS / "explanation/protocol.md").read_text()
        named = re.findall(r"`([\w/]+\.py)` \(`(\w+)`\)", page)
        assert named
        missing = [
            (path, name)
            for path, name in named
            if not re.search(rf"(def|class) {name}\b", (ROOT / "django_leased_cron" / path).read_text())
        ]
        assert missing == []

    def test_states_every_rule(self) -> None:
        """Every rule that a comment of the code refers to by name stands in the protocol."""
        page = (DOCS / "explanation/protocol.md").read_text()
        referred = set(re.findall(r"\b(?:I(?:10|[1-9])|P[12]|A[1-7])\b", SOURCES))
        assert referred == set(re.findall(r"^\*\*([IPA]\d+)\b", page, flags=re.MULTILINE))


def test_links_of_the_readme_lead_somewhere() -> None:
    """Whatever file of the repository the README links to is there."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", (ROOT / "README.md").read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
