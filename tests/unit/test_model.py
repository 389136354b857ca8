"""The protocol's models speak of the code that is there, and every rule stands in code, models and documentation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.model.checker import MODELS
from tests.model.variants import FAILS, VARIANTS

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "django_leased_cron"
EXPLANATION = ROOT / "docs/explanation"
SOURCES = {path.stem: path.read_text() for path in sorted(MODELS.glob("*.pml"))}
RULES = ["P1", "P2", *(f"A{number}" for number in range(1, 8))]
OPTION = re.compile(r"^  :: (?:d_step|atomic) ")
COMMENT = re.compile(r"^ +/\* (?:world: |[\w/]+\.py \w).* \*/$")


def find_names(text: str) -> set[tuple[str, str]]:
    """Return file and name of each piece of code that a model mentions; the name is empty where there is none."""
    return set(re.findall(r"\b([a-z_]+(?:/[a-z_]+)*\.py)(?: (\w+(?:\.\w+)?))?", text))


def find_definitions(path: Path) -> Iterator[str]:
    """Yield what a module defines: ``function``, ``CONSTANT``, ``Class``, ``Class.method`` and ``Class._attribute``."""
    for node in ast.parse(path.read_text()).body:
        yield from _find_assigned(node)
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield node.name
            for member in ast.walk(node):
                if isinstance(member, ast.FunctionDef):
                    yield f"{node.name}.{member.name}"
                elif isinstance(member, ast.Attribute) and isinstance(member.ctx, ast.Store):
                    yield f"{node.name}.{member.attr}"


def _find_assigned(node: ast.stmt) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    yield from (target.id for target in targets if isinstance(target, ast.Name))


@pytest.mark.parametrize("model", SOURCES)
def test_code_that_a_model_names_is_there(model: str) -> None:
    """Each mention has a file of the package and something that the file defines."""
    named = find_names(SOURCES[model])
    assert named
    missing = [
        (file, name)
        for file, name in sorted(named)
        if not (PACKAGE / file).is_file() or name not in set(find_definitions(PACKAGE / file))
    ]
    assert missing == [("tests/model/variants.py", "")] * (model == "dispatch")


@pytest.mark.parametrize("model", SOURCES)
def test_every_transition_says_what_it_is(model: str) -> None:
    """The line above it names the code that it stands for, or the world."""
    lines = SOURCES[model].splitlines()
    transitions = [number for number, line in enumerate(lines) if OPTION.match(line)]
    assert transitions
    assert [lines[number] for number in transitions if not COMMENT.match(lines[number - 1])] == []


@pytest.mark.parametrize("rule", RULES)
def test_rule_has_one_name_everywhere(rule: str) -> None:
    """It stands in the models, in the code and in the protocol, and some variant shows what happens without it."""
    word = re.compile(rf"(?<![A-Z0-9]){rule}(?![0-9])")
    assert any(word.search(text) for text in SOURCES.values())
    assert any(word.search(path.read_text()) for path in PACKAGE.rglob("*.py"))
    assert re.search(rf"^\*\*{rule}\*\*", (EXPLANATION / "protocol.md").read_text(), flags=re.MULTILINE)
    assert any(variant.name.startswith(f"{rule}-") and variant.expected == FAILS for variant in VARIANTS)


@pytest.mark.parametrize("model", SOURCES)
def test_options_of_a_model_are_those_of_its_variants(model: str) -> None:
    """Whatever a model can be asked is asked by some variant, and no variant asks for what is not there."""
    asked = {
        option.partition("=")[0] for variant in VARIANTS if variant.model == model for option in variant.options.split()
    }
    tested = r"^#(?:ifdef|ifndef|if|elif) (?:defined\()?!?(\w+)|&& !?defined\((\w+)\)"
    known = {name for pair in re.findall(tested, SOURCES[model], flags=re.MULTILINE) for name in pair if name}
    assert asked - known == set()
    assert known - asked <= {"WRITE"}


def test_documentation_lists_every_variant() -> None:
    """In the order in which they run, with what is expected of them."""
    page = (EXPLANATION / "model.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \| (fails|holds) \|", page, flags=re.MULTILINE)
    assert rows == [(variant.name, variant.expected) for variant in VARIANTS]
