"""How much the database does for a statement, in SQLite's own steps: what the clock says of one row proves nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import pytest
from django.db.backends.base.base import BaseDatabaseWrapper

from django_leased_cron.core.occurrence import CatchUp, OccurrenceState
from django_leased_cron.core.outbox import Outcome, Settlement, UnconfirmedClaim
from django_leased_cron.database.session import SessionPool
from django_leased_cron.database.sqlite import SQLiteDialect
from django_leased_cron.models import Occurrence
from django_leased_cron.outbox import DatabaseOutbox
from tests.integration.scheduling_bench import MISSED_AFTER_MS, NOW_MS, TTL_MS, SchedulingBench

_STEPS_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CountingDialect(SQLiteDialect):
    """SQLite that counts the steps of its virtual machine, by the hundred."""

    hundreds: Iterator[int] = field(default_factory=count)

    def prepare(self, connection: BaseDatabaseWrapper) -> Sequence[str]:
        connection.connection.set_progress_handler(lambda: next(self.hundreds) < 0, _STEPS_AT_ONCE)
        return SQLiteDialect.prepare(self, connection)

    def count_hundreds(self) -> int:
        return next(self.hundreds)


def add_occurrences(bench: SchedulingBench, number: int, state: OccurrenceState) -> list[Occurrence]:
    rows = Occurrence.objects.using(bench.alias)
    return rows.bulk_create(
        [
            Occurrence(job_id=job_id, due_at_ms=NOW_MS, state=state, epoch=1, attempt=1, task_id=f"{state} {job_id}")
            for job_id in range(1, number + 1)
        ]
    )


@pytest.fixture
def dialect() -> CountingDialect:
    return CountingDialect()


@pytest.fixture
def outbox(bench: SchedulingBench, dialect: CountingDialect) -> Iterator[DatabaseOutbox]:
    """Yield an outbox whose connection counts."""
    pool = SessionPool(bench.alias, dialect)
    outbox = DatabaseOutbox(pool, lease_ttl_ms=TTL_MS, missed_after_ms=MISSED_AFTER_MS, catch_up=CatchUp.ONCE)
    with closing(outbox):
        yield outbox


@pytest.mark.parametrize("database_alias", ["sqlite"], indirect=True)
def test_confirm_reads_its_rows_once(bench: SchedulingBench, dialect: CountingDialect, outbox: DatabaseOutbox) -> None:
    """And not once more for each of those that are claimed: 500 would be a quarter of a million."""
    claims = [
        UnconfirmedClaim(occurrence_id=row.pk, epoch=row.epoch, attempt=row.attempt)
        for row in add_occurrences(bench, 500, OccurrenceState.CLAIMED)
    ]
    settlements = [Settlement(claim=claim, outcome=Outcome.SENT, at_ms=NOW_MS) for claim in claims]
    before = dialect.count_hundreds()
    outbox.confirm(settlements, term=bench.term(), predecessors_adoptable_in_ms=None)
    steps = (dialect.count_hundreds() - before) * _STEPS_AT_ONCE
    assert {state for state, _, _ in bench.states()} == {"sent"}
    assert steps < 200 * len(claims)


@pytest.mark.parametrize("database_alias", ["sqlite"], indirect=True)
def test_look_for_old_history_does_not_read_the_young(
    bench: SchedulingBench, dialect: CountingDialect, outbox: DatabaseOutbox
) -> None:
    """It is done every minute, and there may be millions of them."""
    add_occurrences(bench, 2000, OccurrenceState.SENT)
    before = dialect.count_hundreds()
    assert outbox.purge(older_than_ms=10 * 366 * 86_400_000, limit=500) == 0
    assert (dialect.count_hundreds() - before) * _STEPS_AT_ONCE < 1000
