"""One log line an outage, however many tries fail in it, and however many things are tried."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from django_leased_cron.core.events import DatabaseOutage, DatabaseRecovered, Emit, Event
from django_leased_cron.exceptions import CommitOutcomeUnknownError, DatabaseUnreachableError, StoreError


class OutageWatch:
    """Tells of a database's failure once per kind of error, and of its recovery, for one thing that is being done."""

    def __init__(self, *, alias: str, doing: str, emit: Emit) -> None:
        self._alias = alias
        self._doing = doing
        self._emit = emit
        self._told: set[type[StoreError]] = set()

    def failed(self, error: StoreError) -> None:
        if type(error) not in self._told:
            self._told.add(type(error))
            unreachable = isinstance(error, DatabaseUnreachableError | CommitOutcomeUnknownError)
            self._emit(DatabaseOutage(alias=self._alias, doing=self._doing, detail=str(error), unreachable=unreachable))

    def worked(self) -> None:
        """It was done, or is no longer to be done."""
        if self._told:
            self._told.clear()
            self._emit(DatabaseRecovered(alias=self._alias, doing=self._doing))


@dataclass(slots=True, kw_only=True)
class _Outage:
    told_doing: str
    held_up: set[str] = field(default_factory=set)


class OutageFold:
    """Passes events on, and of one outage only what was told first and the end of all: one line, not one a tenant.

    Things that fail because a database cannot be reached are one outage, and so are things that fail for the same
    reason in the same words.
    """

    def __init__(self, emit: Emit) -> None:
        self._pass_on = emit
        self._lock = threading.Lock()
        self._outages: dict[tuple[str, str], _Outage] = {}

    def emit(self, event: Event) -> None:
        match event:
            case DatabaseOutage():
                if self._begins(event):
                    self._pass_on(event)
            case DatabaseRecovered():
                for doing in self._find_ended(event):
                    self._pass_on(DatabaseRecovered(alias=event.alias, doing=doing))
            case _:
                self._pass_on(event)

    def _begins(self, event: DatabaseOutage) -> bool:
        reason = event.alias, "" if event.unreachable else event.detail
        with self._lock:
            known = reason in self._outages
            self._outages.setdefault(reason, _Outage(told_doing=event.doing)).held_up.add(event.doing)
        return not known

    def _find_ended(self, event: DatabaseRecovered) -> list[str]:
        """Return of each outage that ends with this what had been told to fail."""
        ended = []
        with self._lock:
            for (alias, reason), outage in list(self._outages.items()):
                if alias == event.alias:
                    outage.held_up.discard(event.doing)
                    if not outage.held_up:
                        del self._outages[alias, reason]
                        ended.append(outage.told_doing)
        return ended
