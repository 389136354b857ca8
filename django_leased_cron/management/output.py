"""What commands print: JSON for scripts, aligned tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from django_leased_cron.core.occurrence import format_instant

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_INSTANT = "_at_ms"


def to_document(record: DataclassInstance) -> dict[str, Any]:
    """Return a record as JSON shows it: fields in their order, instants ``*_at_ms`` as text named ``*_at``."""
    document = {}
    for field in fields(record):
        name, value = field.name, getattr(record, field.name)
        if name.endswith(_INSTANT):
            name, value = name.removesuffix("_ms"), None if value is None else format_instant(value)
        document[name] = value
    return document


def align(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; what is no printable character (a job's name may hold any) is shown as ``?``."""
    lines = [headers, *([_clean(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _clean(cell: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in cell)
