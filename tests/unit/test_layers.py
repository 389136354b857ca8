"""Imports go down only, wherever in a module they stand.

======  ==============================================================================================
layer   what is in it
======  ==============================================================================================
4       edges: commands, admin, apps, the drop-in for ``celery beat``, the package's own face
3       wiring, checks
2       supervision; adapters (everything not named here), conf, models
1       core: plain Python that reads no clock
0       exceptions
======  ==============================================================================================

Within layer 2, supervision knows no adapter and no adapter knows supervision: they meet in wiring, by the ports of
core. Models know nothing of ours, so that migrations never depend on what the code does.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "django_leased_cron"
ROOT = Path(__file__).resolve().parents[2] / PACKAGE
MODULES = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))

LAYERS = {
    "exceptions": 0,
    "core": 1,
    "wiring": 3,
    "checks": 3,
    "admin": 4,
    "apps": 4,
    "beat": 4,
    "management": 4,
    "__init__": 4,
}
ADAPTERS_AND_SUPERVISION = 2
CLOCK = "core/clock.py"
CLOCK_READINGS = {f"{name}.{method}" for name in ("datetime", "date") for method in ("now", "today", "utcnow")}


def find_layer(part: str) -> int:
    return LAYERS.get(part, ADAPTERS_AND_SUPERVISION)


def find_part(module: str) -> str:
    """Return what a file or a dotted path below the package belongs to: ``core`` for ``core/clock.py``."""
    return module.removesuffix(".py").replace("/", ".").split(".")[0]


def find_imports(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted paths that a module imports, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def find_violations(module: str, source: str) -> list[str]:
    """Return what a module of the package, such as ``core/clock.py``, imports or reads and may not."""
    tree = ast.parse(source)
    part = find_part(module)
    violations = []
    for name in find_imports(tree):
        root, _, rest = name.partition(".")
        if root == PACKAGE:
            allowed = _is_allowed_inside(part, find_part(rest))
        elif root == "":
            allowed = False  # relative: hides which layer it comes from
        elif part in {"core", "supervision", "exceptions"}:
            allowed = root in sys.stdlib_module_names - {"sqlite3", "time"} or (module == CLOCK and root == "time")
        else:
            allowed = name != "django.conf.settings" or module == "conf.py"
        if not allowed:
            violations.append(name)
    if part in {"core", "supervision"}:
        attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
        violations += [name for name in map(ast.unparse, attributes) if name in CLOCK_READINGS]
    return violations


def _is_allowed_inside(importer: str, imported: str) -> bool:
    if imported == importer:
        return True
    if not (ROOT / imported).is_dir() and not (ROOT / f"{imported}.py").is_file():
        return True  # a name of the package's own face, such as __version__
    if importer == "models":
        return False
    if "supervision" in {importer, imported} and find_layer(importer) == find_layer(imported):
        return False
    return find_layer(imported) <= find_layer(importer)


def test_imports_go_down_only() -> None:
    """Each module of the package keeps to its layer."""
    violations = {module: find_violations(module, (ROOT / module).read_text()) for module in MODULES}
    assert {module: found for module, found in violations.items() if found} == {}


@pytest.mark.parametrize(
    ("module", "source", "violation"),
    [
        ("core/term.py", "import time", "time"),
        ("core/term.py", "def f():\n    from django.db import models", "django.db.models"),
        ("core/term.py", "from datetime import UTC, datetime\nat = datetime.now(UTC)", "datetime.now"),
        ("core/term.py", "from django_leased_cron.conf import get_settings", "django_leased_cron.conf.get_settings"),
        ("core/term.py", "from django_leased_cron import models", "django_leased_cron.models"),
        ("exceptions.py", "from django_leased_cron.core import clock", "django_leased_cron.core.clock"),
        ("supervision/keeper.py", "from time import sleep", "time.sleep"),
        ("supervision/keeper.py", "import django_leased_cron.database", "django_leased_cron.database"),
        ("lease_store/mysql.py", "from django_leased_cron.supervision import x", "django_leased_cron.supervision.x"),
        ("lease_store/mysql.py", "from django_leased_cron.checks import x", "django_leased_cron.checks.x"),
        ("lease_store/mysql.py", "from django.conf import settings", "django.conf.settings"),
        ("lease_store/mysql.py", "from .postgres import x", ".postgres.x"),
        ("models.py", "from django_leased_cron.core import clock", "django_leased_cron.core.clock"),
        ("checks.py", "from django_leased_cron.admin import x", "django_leased_cron.admin.x"),
    ],
)
def test_import_that_goes_up_is_found(module: str, source: str, violation: str) -> None:
    """The rule finds what it is there for."""
    assert find_violations(module, source) == [violation]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("core/clock.py", "import time"),
        ("core/term.py", "from django_leased_cron.exceptions import LeasedCronError\nfrom datetime import datetime"),
        ("supervision/keeper.py", "import threading\nfrom django_leased_cron.core.clock import Clock"),
        ("lease_store/mysql.py", "import time\nfrom django_leased_cron.database.session import Session"),
        ("apps.py", "from django_leased_cron import checks, __version__"),
        ("conf.py", "from django.conf import settings"),
    ],
)
def test_import_that_goes_down_is_allowed(module: str, source: str) -> None:
    """And leaves alone what is right."""
    assert find_violations(module, source) == []
