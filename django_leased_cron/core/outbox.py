"""The plan and the outbox of one tenant, as values and a port.

A *claim* is one transaction that proves the lease, decides which occurrences this term dispatches and moves the plan
(I2, I3); a *confirm* records what the broker has; a *plan write* moves next due times after an edit. All three begin
with the guarded lease row, so one tenant's are strictly one after another, whoever sends them.

Rules P2, A1, A4, A6 and A7 are carried out by the adapter behind :class:`Outbox`; P1, A2, A3 and A5 by the
dispatcher, which decides what to ask for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from django_leased_cron.core.catch_up import Stretch
from django_leased_cron.core.occurrence import SkipReason


@dataclass(frozen=True, slots=True, kw_only=True)
class TermKey:
    """One unbroken holding of one lease: what every guarded transaction names."""

    tenant_key: str
    holder_id: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TermLost:
    """The database says that the term is over: the guard matched no row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """A job with a next due time, as the plan has it, with the policy that its catch-up needs."""

    job_id: int
    next_due_at_ms: int
    fire_at_ms: int
    inputs: str
    catch_up: str = ""
    """Empty: the settings' default; likewise ``None`` for the window."""
    catch_up_window_s: int | None = None
    jitter_s: int = 0
    delivery: str = ""
    overlap: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What is due soonest, in order of its time to fire, and what people asked for by hand."""

    now_ms: int
    jobs: Sequence[PlannedJob]
    requested: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """One slot to dispatch."""

    due_at_ms: int
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """What a claim does with one due job, computed before the transaction: no arithmetic under the lock.

    ``planned_due_at_ms`` names the plan it replaces: a row that has another one by then is left alone.
    """

    job_id: int
    inputs: str
    planned_due_at_ms: int
    fires: Sequence[Fire]
    skipped: Sequence[Stretch]
    delivery: str
    next_due_at_ms: int | None
    next_fire_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnconfirmedClaim:
    """An occurrence in state ``claimed``, named the way rule A1 wants it."""

    occurrence_id: int
    epoch: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """A claim to take over, and what the adopter knows of it."""

    claim: UnconfirmedClaim
    never_started: bool
    """This process knows that this attempt was never written to the broker (A2, A6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimOrder:
    """What one claim transaction is asked to do."""

    term: TermKey
    advances: Sequence[Advance] = ()
    requested: Sequence[int] = ()
    adoptions: Sequence[Adoption] = ()
    read_back: bool = False
    """A commit's outcome is unknown: also adopt what is claimed in this epoch and not in hand (A4)."""
    in_hand: Collection[tuple[int, int]] = field(default_factory=frozenset)
    """(occurrence id, attempt) of this term's unconfirmed claims: known already, neither read back nor reported."""
    predecessors_adoptable_in_ms: int | None = None
    """In how long this process may adopt earlier terms' claims; ``None``: there are none."""
    adopt_limit: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMessage:
    """The job's row as it was read after the claim: text as the database has it, nothing decoded yet."""

    name: str
    task: str
    args: str
    kwargs: str
    headers: str
    queue: str | None
    exchange: str | None
    routing_key: str | None
    priority: int | None
    expires: str | None
    expire_seconds: int | None
    digest: str
    """As the planner reads it of the same row: what it is to find changed before it plans a job anew that is flagged
    for its message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedOccurrence:
    """An occurrence that this term may now publish. ``message`` is ``None`` where the job is gone by now."""

    claim: UnconfirmedClaim
    job_id: int
    due_at_ms: int
    task_id: str
    at_most_once: bool
    claimed_at_ms: int
    message: JobMessage | None
    finishes: bool
    """A one-off that has nothing planned after this: once sent, fresh or adopted, it is to be switched off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimReply:
    """What a claim did."""

    now_ms: int
    """The database's clock when the transaction decided."""
    claimed: Sequence[ClaimedOccurrence]
    """Fresh ones and adopted ones. An adoption that is not among them is nobody's any more: settled otherwise."""
    locked: Collection[int]
    """Occurrences of ``adoptions`` and ``requested`` whose rows others have locked: nothing was done about them."""
    left_to_planner: Collection[int]
    """Due jobs whose definition is not the one they were planned from."""
    read_back_complete: bool


class Outcome(StrEnum):
    """What a confirm records."""

    SENT = "sent"
    FAILED = "failed"
    UNCERTAIN = "uncertain"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """One claim and what became of it."""

    claim: UnconfirmedClaim
    outcome: Outcome
    at_ms: int
    """By the database's clock, as this process estimates it."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """What django-celery-beat's row of a job is told after its occurrences were sent."""

    job_id: int
    runs: int
    last_run_at_ms: int
    finished: bool
    """A one-off that has had its run: the job is switched off."""


class ChangeKind(StrEnum):
    """Why the planner must look at a job."""

    NEW = "new"
    EDITED = "edited"
    DISABLED = "disabled"
    DELETED = "deleted"
    REFORMATTED = "reformatted"
    """Its planning inputs have another format: rewritten, not planned anew."""
    RUN_BY_OTHER = "run_by_other"
    """Its ``last_run_at`` is newer than what this app knows of: another scheduler fired it meanwhile."""
    FLAGGED = "flagged"
    """It is marked with an error and nobody edited it; but what was wrong may have been the machine."""
    FINISHED = "finished"
    """A one-off that fired and is still switched on: made up for a process that died in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedJob:
    """A job whose row no longer fits its plan."""

    job_id: int
    kind: ChangeKind
    inputs: str
    next_due_at_ms: int | None
    planned_inputs: str
    last_run_at: str | None
    """As text, in the storage zone, like the other instants."""
    total_run_count: int = 0
    date_changed: str | None = None
    latest_run_at: str | None = None
    """The latest ``last_run_at`` of the tenant; known only of a job that has no run and was never planned."""
    jitter_s: int = 0
    args: str = ""
    kwargs: str = ""
    headers: str = ""
    message_digest: str = ""
    error: str = ""
    """What it is marked with so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedChanges:
    """What edit triggers have noted since the notes were last forgotten."""

    note_ids: Sequence[int]
    changes: Sequence[ChangedJob]
    everything: bool
    """A whole table was emptied, or one edit touches too many jobs to list: pass over all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWrite:
    """A new plan of one job; names the inputs it replaces. ``inputs`` empty: not planned (disabled)."""

    job_id: int
    replaced_inputs: str
    replaced_due_at_ms: int | None
    replaced_because: SkipReason
    """Recorded for the slots it replaces, if they are due (I3)."""
    replaced_slots: int = 1
    replaced_last_due_at_ms: int | None = None
    """How many are due, where the first is, and the last of them; ``None``: the first is the last."""
    inputs: str
    next_due_at_ms: int | None
    fire_at_ms: int | None
    known_run_at_ms: int | None
    error: str = ""
    message_digest: str = ""
    delete: bool = False


class Outbox(Protocol):
    """One tenant's plan and outbox. Raises the errors of ``StoreError``."""

    def read_window(self, limit: int) -> Window:
        """Read what is due soonest, at most ``limit`` jobs; no lock, no guard."""
        ...

    def read_predecessors(self, *, epoch: int, limit: int) -> Sequence[UnconfirmedClaim]:
        """Read claims of epochs below ``epoch`` that are still unconfirmed, the oldest first."""
        ...

    def claim(self, order: ClaimOrder) -> ClaimReply | TermLost:
        """Run one claim transaction, then read the definitions of what it claimed.

        Raises:
            CommitOutcomeUnknownError: also where the commit is known and the read after it failed: either way there
                may be claims of this epoch that nobody has in hand (A4).
        """
        ...

    def confirm(
        self, settlements: Sequence[Settlement], *, term: TermKey, predecessors_adoptable_in_ms: int | None
    ) -> Sequence[Settlement]:
        """Record outcomes (P2); renews the lease if it is still the term's, and goes on if it is not.

        Returns those whose rows somebody else has locked, to be made up later.
        """
        ...

    def record_runs(self, runs: Sequence[JobRun]) -> Sequence[JobRun]:
        """Tell django-celery-beat's rows; returns those that an editor holds locked, to be made up later."""
        ...

    def find_changes(self, *, after_job_id: int, limit: int, with_flagged: bool = False) -> Sequence[ChangedJob]:
        """Compare rows with plans in the database; return those that differ, in order of their ids.

        At most ``limit``; then the pass goes on after the last id returned. Deleted jobs come with the last part.

        Args:
            with_flagged: also those that are marked with an error and were not edited since.
        """
        ...

    def find_noted_changes(self, *, limit: int) -> NotedChanges:
        """Do the same for the rows that edit triggers have noted, at most ``limit`` notes."""
        ...

    def forget_notes(self, note_ids: Sequence[int]) -> None:
        """Delete notes whose changes were planned. Lost, they are merely looked at again."""
        ...

    def has_edit_triggers(self) -> bool:
        """Return whether edits are noted by triggers in this database now."""
        ...

    def has_more_jobs_than(self, count: int) -> bool: ...

    def write_plans(
        self, writes: Sequence[PlanWrite], *, term: TermKey, predecessors_adoptable_in_ms: int | None
    ) -> TermLost | None:
        """Write plans in one guarded transaction."""
        ...

    def purge(self, *, older_than_ms: int, limit: int) -> int:
        """Delete at most ``limit`` finished occurrences that were due before an age in ms; return how many."""
        ...
