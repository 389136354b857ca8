"""What a source has to say about one job, before anybody has checked it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django_leased_cron.exceptions import LeasedCronError


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One job of a source. With ``problems`` the source itself could not put it into JSON."""

    name: str
    """As people find it in the source."""
    document: Mapping[str, object]
    tenant_key: str | None = None
    """``None``: the source does not know tenants."""
    problems: Sequence[str] = ()


class UnreadableSourceError(LeasedCronError):
    """A source of jobs cannot be read at all."""

    def __init__(self, source: str, reason: str) -> None:
        self.source = source
        self.reason = reason
        super().__init__(f"{source}: {reason}")


def read_file_entries(text: str, *, source: str) -> Sequence[Entry]:
    """Return the entries of an export.

    Raises:
        UnreadableSourceError: it is no JSON array.
    """
    try:
        documents = json.loads(text)
    except ValueError as exc:
        raise UnreadableSourceError(source, f"is not JSON: {exc}") from exc
    except RecursionError as exc:
        raise UnreadableSourceError(source, "is nested too deeply") from exc
    if not isinstance(documents, list):
        raise UnreadableSourceError(source, "must be a JSON array of jobs, as leased_jobs export writes it")
    return [_read_document(document, number) for number, document in enumerate(documents, start=1)]


def _read_document(document: object, number: int) -> Entry:
    name = f"entry {number}"
    if not isinstance(document, Mapping):
        return Entry(name=name, document={}, problems=["must be a JSON object"])
    tenant_key = document.get("tenant")
    return Entry(
        name=str(document["job"]) if document.get("job") else name,
        document={key: value for key, value in document.items() if key != "tenant"},
        tenant_key=None if tenant_key is None else str(tenant_key),
    )
