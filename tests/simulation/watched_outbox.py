"""The real outbox, watched."""

from __future__ import annotations

from collections.abc import Sequence

from django_leased_cron.core.occurrence import CatchUp
from django_leased_cron.core.outbox import (
    ClaimOrder,
    ClaimReply,
    Outcome,
    PlanWrite,
    Settlement,
    TermKey,
    TermLost,
)
from django_leased_cron.core.timing import LeaseTiming
from django_leased_cron.database.session import SessionPool
from django_leased_cron.outbox import DatabaseOutbox
from tests.simulation.simulated_time import SimulatedTime
from tests.simulation.timeline import Claimed, Confirmed, Happening, Message, Planned


class WatchedOutbox(DatabaseOutbox):
    """The real outbox; writes down what it was asked to look at, once that is committed."""

    def __init__(
        self,
        pool: SessionPool,
        time: SimulatedTime,
        timeline: list[Happening],
        *,
        timing: LeaseTiming,
        catch_up: CatchUp,
    ) -> None:
        super().__init__(
            pool, lease_ttl_ms=timing.lease_ttl_ms, missed_after_ms=timing.missed_after_ms, catch_up=catch_up
        )
        self._time = time
        self._timeline = timeline

    def claim(self, order: ClaimOrder) -> ClaimReply | TermLost:
        reply = super().claim(order)
        if isinstance(reply, ClaimReply):
            claimed = Claimed(
                at_ms=self._time.now_ms,
                most_by_job={advance.job_id: len(advance.fires) for advance in order.advances},
                adopted=[adoption.claim.occurrence_id for adoption in order.adoptions],
                granted=[
                    Message(
                        occurrence_id=each.claim.occurrence_id,
                        job_id=each.job_id,
                        due_at_ms=each.due_at_ms,
                        attempt=each.claim.attempt,
                        task_id=each.task_id,
                    )
                    for each in reply.claimed
                ],
            )
            self._timeline.append(claimed)
        return reply

    def confirm(
        self, settlements: Sequence[Settlement], *, term: TermKey, predecessors_adoptable_in_ms: int | None
    ) -> Sequence[Settlement]:
        locked = super().confirm(settlements, term=term, predecessors_adoptable_in_ms=predecessors_adoptable_in_ms)
        assert not locked
        assert {settlement.outcome for settlement in settlements} == {Outcome.SENT}
        self._timeline.append(Confirmed(occurrence_ids=[each.claim.occurrence_id for each in settlements]))
        return locked

    def write_plans(
        self, writes: Sequence[PlanWrite], *, term: TermKey, predecessors_adoptable_in_ms: int | None
    ) -> TermLost | None:
        lost = super().write_plans(writes, term=term, predecessors_adoptable_in_ms=predecessors_adoptable_in_ms)
        if lost is None:
            self._timeline.append(Planned(at_ms=self._time.now_ms, job_ids=[write.job_id for write in writes]))
        return lost
