"""One fault from beginning to end: a fleet at work, harm that lasts for a while, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from tests.acceptance.account import Account
from tests.acceptance.fleet import Fleet
from tests.acceptance.forms import SCALED
from tests.acceptance.waiting import next_second_ms, now_ms, wait_for_instant

EVERYTHING: Final[Mapping[str, object]] = {**SCALED, "CATCH_UP": "all"}
"""Scaled settings under which nothing is left to catch-up: every occurrence is to be sent, however late."""

_JOBS = 3
_BETWEEN_BATCHES_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordeal:
    """What a fleet went through.

    Attributes:
        account: of everything that came due from before the fault to some seconds after it.
        takeovers: changes of holder from before the fault to the end.
        recovery_ms: from the end of the fault to the last message of what had come due until then.
        dead: supervisors that ended by themselves.
        errors: lines at level ERROR by supervisor.
        broken: lines that tell of errors of this app.
    """

    account: Account
    takeovers: int
    recovery_ms: int
    dead: Sequence[str]
    errors: Mapping[str, Sequence[str]]
    broken: Sequence[str]

    def __str__(self) -> str:
        lines = "+".join(str(len(lines)) for lines in self.errors.values())
        return (
            f"{self.account}, {self.account.worst_lateness_ms()} ms late at worst, back after {self.recovery_ms} ms,"
            f" {self.takeovers} takeovers, ERROR lines {lines}"
        )

    def errors_with(self, text: str) -> Sequence[str]:
        """Return the lines at level ERROR, of all supervisors, in which a text is found."""
        return [line for lines in self.errors.values() for line in lines if text in line]

    def assert_nothing_was_harmed(self, *, within_s: float, sent_again: int = 0, outages: int = 1) -> None:
        """Fail unless it came to nothing but lateness.

        Args:
            within_s: the longest that recovery may take.
            sent_again: how many occurrences may have been sent more than once (I4).
            outages: how many a process may have told of, in one line each.
        """
        assert not self.dead
        assert not self.broken
        assert not self.account.lost
        assert not self.account.strangers
        assert not self.account.indistinct
        assert not self.account.run_twice
        assert len(self.account.sent_again) <= sent_again
        assert self.recovery_ms <= within_s * 1000
        for process, lines in self.errors.items():
            assert len(lines) <= outages, f"{process}: {lines}"


def undergo(
    fleet: Fleet,
    fault: AbstractContextManager[object],
    *,
    seconds: float,
    supervisors: int = 2,
    jobs_count: int = _JOBS,
    afterwards_s: float = 2.0,
    leased_cron: Mapping[str, object] = EVERYTHING,
) -> Ordeal:
    """Let schedulers work, do them harm for that long, let them recover, and stop them.

    The fault begins between two batches: what is in hand at a wrong moment is the matter of other tests.
    """
    fleet.leased_cron = leased_cron
    fleet.open_tap()
    fleet.start_supervisors(supervisors)
    jobs = fleet.add_jobs(jobs_count)
    fleet.wait_for_message(jobs, due_from_ms=jobs.first_due_ms)
    epoch_before = _read_epoch(fleet)

    began_at_ms = next_second_ms() + _BETWEEN_BATCHES_MS
    wait_for_instant(began_at_ms)
    with fault:
        wait_for_instant(began_at_ms + round(seconds * 1000))
    ended_at_ms = now_ms()
    account = fleet.settle(jobs, until_ms=next_second_ms(after_s=afterwards_s))
    return _draw_up(fleet, account, epoch_before=epoch_before, ended_at_ms=ended_at_ms)


def _draw_up(fleet: Fleet, account: Account, *, epoch_before: int, ended_at_ms: int) -> Ordeal:
    takeovers = _read_epoch(fleet) - epoch_before
    supervisors = fleet.supervisors
    dead = [f"{process}:\n{process.read_log()}" for process in supervisors if not process.is_alive]
    lines = {process.name: process.read_log().splitlines() for process in supervisors}
    fleet.stop_supervisors()
    arrears = [
        messages[0].arrived_at_ms - ended_at_ms
        for task_id, messages in account.messages.items()
        if account.due[task_id][1] <= ended_at_ms
    ]
    return Ordeal(
        account=account,
        takeovers=takeovers,
        recovery_ms=max(0, *arrears),
        dead=dead,
        errors={name: [line for line in log if " ERROR " in line] for name, log in lines.items()},
        broken=[line for log in lines.values() for line in log if "Traceback" in line or "going on:" in line],
    )


def _read_epoch(fleet: Fleet) -> int:
    lease = fleet.read_lease()
    assert lease is not None
    return lease.epoch
