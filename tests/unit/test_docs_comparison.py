"""What the documentation claims about django-celery-beat's behaviour names the test that shows it."""

from __future__ import annotations

import re

import pytest

from tests.unit.test_docs import ROOT, read_tables

PAGE = "reference/django-celery-beat.md"
SECTIONS = ("The same", "Better")


@pytest.mark.parametrize("section", SECTIONS)
def test_every_row_is_shown_by_a_test_that_exists(section: str) -> None:
    """The last cell is a file and a function in it."""
    [[heading, *rows]] = read_tables(PAGE, section=section)
    assert heading[-1] == "shown by"
    assert rows
    missing = []
    for row in rows:
        path, _, name = row[-1].strip("`").partition("::")
        file = ROOT / path
        if not (file.is_file() and re.search(rf"def {name}\(", file.read_text())):
            missing.append(row[-1])
    assert missing == []


def test_every_difference_says_why() -> None:
    """Three cells, none of them empty."""
    [[heading, *rows]] = read_tables(PAGE, section="Deliberately different")
    assert heading[-1] == "why"
    assert [row for row in rows if len(row) != 3 or not all(row)] == []
