"""What a subcommand is, and what it answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from django.core.management.base import CommandParser

from django_leased_cron.management.output import align, to_document
from django_leased_cron.tenants import Tenant

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Record = TypeVar("Record", bound=DataclassInstance)

Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is printed; a ``failure`` makes the command exit 1."""

    output: str
    warnings: Sequence[str] = ()
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subcommand:
    """One subcommand, over the tenants that were chosen."""

    help: str
    run: Callable[[Sequence[Tenant], Options], Answer]
    add_arguments: Callable[[CommandParser], None] = lambda parser: None


def present(
    records: Sequence[Record],
    options: Options,
    *,
    headers: Sequence[str],
    describe: Callable[[Record], Sequence[str]],
    empty: str,
) -> str:
    """Return records as JSON or, for people, as a table."""
    if options["json"]:
        return json.dumps([to_document(record) for record in records], indent=2)
    return align(headers, [describe(record) for record in records]) if records else empty
