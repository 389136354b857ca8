"""One claimed batch on its way through the broker: what to publish, and what to record of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import assert_never

from django_leased_cron.core.claiming import ClaimRules
from django_leased_cron.core.clock import BootTime
from django_leased_cron.core.database_clock import DatabaseClockEstimate
from django_leased_cron.core.message import build_publication
from django_leased_cron.core.occurrence import SkipReason
from django_leased_cron.core.outbox import (
    ClaimedOccurrence,
    ClaimReply,
    JobMessage,
    JobRun,
    Outcome,
    Settlement,
)
from django_leased_cron.core.publication import (
    Accepted,
    NotStarted,
    Publication,
    PublishResult,
    Refused,
    Unknown,
)
from django_leased_cron.exceptions import MalformedJobError
from django_leased_cron.supervision.hand import Hand


class Batch:
    """Settles each claimed occurrence once: sent, failed, skipped, uncertain, or kept in hand for another attempt."""

    def __init__(self, reply: ClaimReply, *, hand: Hand, estimate: DatabaseClockEstimate, rules: ClaimRules) -> None:
        self._reply = reply
        self._hand = hand
        self._estimate = estimate
        self._rules = rules
        self._by_id = {occurrence.claim.occurrence_id: occurrence for occurrence in reply.claimed}
        self._runs: Counter[int] = Counter()
        self._finished: set[int] = set()
        self.settlements: list[Settlement] = []
        self.malformed: list[tuple[int, MalformedJobError, str]] = []
        """Job id, what is wrong with its message, and the message's digest."""
        self.outage: str | None = None
        """What the broker's connection failed of, if it did."""
        self.sent = 0
        self.failed = 0
        self.worst_lateness_ms = 0
        self._hand.keep_all(reply.claimed)

    def build_publications(self) -> Sequence[Publication]:
        """Decode every claimed occurrence; what cannot be sent is settled here and harms only itself (I8)."""
        publications = []
        for occurrence in self._reply.claimed:
            publication = self._build_publication(occurrence)
            if publication is not None:
                publications.append(publication)
        for publication in publications:
            # From here on it may be written; whatever interrupts the publisher, nobody can say that it was not.
            self._hand.keep(self._by_id[publication.occurrence_id], never_started=False)
        return publications

    def note(self, result: PublishResult) -> None:
        """Take in what the publisher knows of one publication."""
        occurrence = self._by_id[result.publication.occurrence_id]
        match result:
            case Accepted(at=at):
                self._accept(occurrence, at)
            case Refused(reason=reason):
                self._settle(occurrence, Outcome.FAILED, reason)
                self.failed += 1
            case NotStarted(reason=reason, too_late=too_late):
                self._hand.keep(occurrence, never_started=True)
                if not too_late:
                    self.outage = self.outage or reason
            case Unknown(reason=reason):
                self.outage = self.outage or reason
                gives_up = self._hand.note_break(occurrence.claim.occurrence_id)
                if gives_up:
                    self._give_up(occurrence, reason)
                elif occurrence.at_most_once:
                    self._settle(occurrence, Outcome.UNCERTAIN, reason)
            case _:
                assert_never(result)

    def build_runs(self) -> Sequence[JobRun]:
        """Return what django-celery-beat's rows are to be told of the accepted ones."""
        return [
            JobRun(job_id=job_id, runs=runs, last_run_at_ms=self._reply.now_ms, finished=job_id in self._finished)
            for job_id, runs in self._runs.items()
        ]

    def _build_publication(self, occurrence: ClaimedOccurrence) -> Publication | None:
        message = occurrence.message
        if message is None:
            self._settle(occurrence, Outcome.SKIPPED, SkipReason.DELETED)
            return None
        try:
            return build_publication(
                occurrence,
                message,
                tenant_key=self._rules.tenant_key,
                schema=self._rules.schema,
                now_ms=self._reply.now_ms,
                storage_zone=self._rules.storage_zone,
            )
        except MalformedJobError as exc:
            self._fail(occurrence, message, exc)
        except Exception as exc:  # noqa: BLE001 - whatever this row does to our decoding, it harms only itself (I8)
            self._fail(occurrence, message, MalformedJobError.from_unexpected(exc))
        return None

    def _fail(self, occurrence: ClaimedOccurrence, message: JobMessage, error: MalformedJobError) -> None:
        self._settle(occurrence, Outcome.FAILED, str(error))
        self.failed += 1
        self.malformed.append((occurrence.job_id, error, message.digest))

    def _give_up(self, occurrence: ClaimedOccurrence, reason: str) -> None:
        """Settle a message on which the broker ends the connection again and again, and un-plan its job."""
        error = MalformedJobError("message", None, f"the broker ends the connection on it ({reason})")
        self._settle(occurrence, Outcome.UNCERTAIN, str(error))
        if occurrence.message is not None:
            self.malformed.append((occurrence.job_id, error, occurrence.message.digest))

    def _accept(self, occurrence: ClaimedOccurrence, at: BootTime) -> None:
        at_ms = self._estimate.now_ms(at)
        self._hand.note_accepted(occurrence.claim.occurrence_id)
        self._settle(occurrence, Outcome.SENT, at_ms=at_ms)
        self._runs[occurrence.job_id] += 1
        if occurrence.finishes:
            self._finished.add(occurrence.job_id)
        self.sent += 1
        self.worst_lateness_ms = max(self.worst_lateness_ms, at_ms - occurrence.due_at_ms)

    def _settle(
        self, occurrence: ClaimedOccurrence, outcome: Outcome, reason: str = "", *, at_ms: int | None = None
    ) -> None:
        self._hand.drop([occurrence.claim])
        self.settlements.append(
            Settlement(
                claim=occurrence.claim,
                outcome=outcome,
                at_ms=self._reply.now_ms if at_ms is None else at_ms,
                reason=reason,
            )
        )
