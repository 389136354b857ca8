"""A job's definition as the columns of its row."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from django_leased_cron.job_tools.instants import read_instant, to_column
from django_leased_cron.job_tools.transfer.definition import PLAIN_COLUMNS, JobDefinition, to_entry
from django_leased_cron.job_tools.transfer.schedules import find_or_create_row

_INSTANTS: Final = ("start_time", "expires")
_JSON: Final = ("args", "kwargs", "headers")


def to_columns(definition: JobDefinition, keys: Iterable[str], *, alias: str) -> dict[str, Any]:
    """Return the columns that hold these keys of a definition; the row of its schedule is created if need be."""
    wanted = to_entry(definition)
    columns: dict[str, Any] = {}
    for key in keys:
        if key == "schedule":
            columns |= find_or_create_row(wanted[key], alias=alias)
        elif key in _JSON:
            columns[key] = json.dumps(wanted[key])
        elif key in _INSTANTS:
            columns[key] = None if wanted[key] is None else to_column(read_instant(wanted[key]), alias)
        elif key in PLAIN_COLUMNS:
            columns[PLAIN_COLUMNS[key]] = wanted[key]
    return columns
