"""The live account: what the tables show, a line for each thing that happens."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django_leased_cron.models import Occurrence, SchedulerLease
from example_project.demo.fleet import Fleet, Member
from example_project.demo.jobs import Due


def _now_ms() -> int:
    return round(time.time() * 1000)


def tell(text: str) -> None:
    """Print one line, with the time of day."""
    at_ms = _now_ms()
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    print(f"{at:%H:%M:%S}.{at_ms % 1000 // 100}  {text}", flush=True)


def find_lateness_ms(row: Occurrence) -> int | None:
    """Return how late the broker had it; ``None``: it has not.

    Where the worker was quicker than the confirm its start is what the row shows.
    """
    at_ms = row.sent_at_ms or row.started_at_ms
    return None if at_ms is None else at_ms - row.due_at_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """Who scheduled next after something was done to the holder, and how soon."""

    deed: str
    old: str
    new: str
    after_ms: int


class Account:
    """Looks at the tables again and again, and prints what is new."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._name_by_epoch: dict[int, str] = {}
        self._deed: tuple[str, int] | None = None
        self._untold: dict[int, list[Due]] = {}
        self.takeovers: list[Takeover] = []

    def expect(self, due: Sequence[Due]) -> None:
        """From now on, tell of these occurrences too."""
        untold = defaultdict(list)
        for one in due:
            untold[one.due_at_ms].append(one)
        self._untold = dict(sorted(untold.items()))

    def did(self, deed: str) -> None:
        """Remember what was just done to the holder: a change of holder is its consequence."""
        self._deed = (deed, _now_ms())

    def forget_deed(self) -> None:
        """No change of holder comes of it."""
        self._deed = None

    @property
    def has_told_all(self) -> bool:
        return not self._untold

    def find_holder(self) -> Member | None:
        """Return the process that holds the lease now."""
        lease = SchedulerLease.objects.filter(tenant_key="default").exclude(holder_id="").first()
        if lease is None:
            return None
        pid = int(lease.holder_id.rsplit("-", 2)[1])  # HOST-PID-RANDOM, read from the right
        holder = self._fleet.find(pid)
        if holder is not None and lease.epoch not in self._name_by_epoch:
            self._tell_of_holder(holder, lease)
        return holder

    def look(self) -> None:
        """Print what has happened since the last look."""
        self.find_holder()
        rows = {row.task_id: row for row in Occurrence.objects.filter(due_at_ms__in=list(self._untold))}
        for due_at_ms, due in list(self._untold.items()):
            found = [rows[one.task_id] for one in due if one.task_id in rows]
            lateness_ms = [ms for row in found if (ms := find_lateness_ms(row)) is not None]
            if len(lateness_ms) < len(due):
                continue
            del self._untold[due_at_ms]
            self._tell_of_second(due_at_ms, found, max(lateness_ms))

    def _tell_of_holder(self, holder: Member, lease: SchedulerLease) -> None:
        old = self._name_by_epoch[max(self._name_by_epoch)] if self._name_by_epoch else None
        self._name_by_epoch[lease.epoch] = holder.name
        if old is None or self._deed is None:
            tell(f"{holder} holds the lease, epoch {lease.epoch}")
            return
        deed, at_ms = self._deed
        self._deed = None
        takeover = Takeover(deed=deed, old=old, new=holder.name, after_ms=lease.acquired_at_ms - at_ms)
        self.takeovers.append(takeover)
        tell(f"{holder} takes over, epoch {lease.epoch}, {takeover.after_ms} ms after {old} was {deed}")

    def _tell_of_second(self, due_at_ms: int, rows: Sequence[Occurrence], lateness_ms: int) -> None:
        due_at = datetime.fromtimestamp(due_at_ms // 1000, UTC)
        names = "+".join(sorted({self._name_by_epoch.get(row.epoch, "?") for row in rows}))
        again = sum(row.attempt > 1 for row in rows)
        repeated = f", {again} of them sent again" if again else ""
        tell(f"due {due_at:%H:%M:%S}: {len(rows)} dispatched by {names}{repeated}, {lateness_ms} ms late at most")
