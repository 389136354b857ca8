"""One log line an outage, however many tries fail in it."""

from __future__ import annotations

from django_leased_cron.core.events import DatabaseOutage, DatabaseRecovered, Emit
from django_leased_cron.exceptions import StoreError


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
            self._emit(DatabaseOutage(alias=self._alias, doing=self._doing, detail=str(error)))

    def worked(self) -> None:
        if self._told:
            self._told.clear()
            self._emit(DatabaseRecovered(alias=self._alias, doing=self._doing))
