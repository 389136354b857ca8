"""SIGSTOP for longer than a lease, then SIGCONT: a holder that believes in what is no longer true."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.forms import SCALED, Form, in_both_forms
from tests.acceptance.processes import Process
from tests.acceptance.waiting import next_second_ms, now_ms, wait_for_instant, wait_until

_SLACK_S = 0.5
_INSIDE_A_TRANSACTION_S = 2.0
_MOST_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """A holder that was frozen until another took over.

    Attributes:
        in_hand: task ids of what was claimed and not confirmed.
        tries: more than one where the process stood still inside a transaction.
    """

    frozen: Process
    at_ms: int
    epoch: int
    successor: Process
    in_hand: frozenset[str]
    tries: int


@in_both_forms
@pytest.mark.parametrize("stack", ["postgres-redis", "sqlite-filesystem"], indirect=True)
def test_freeze_the_holder_for_longer_than_its_lease(fleet: Fleet, form: Form, report: Report) -> None:
    """Another one takes over, nothing runs twice, and the frozen one goes back to standby and lives."""
    # All: where a freeze keeps everybody waiting for longer than a failover takes, what came due counts as missed.
    fleet.leased_cron = {**SCALED, "CATCH_UP": "all"}
    # Two, so that every takeover proves that the one that was frozen before is a standby again.
    fleet.start(supervisors=2)
    jobs = fleet.add_jobs(3)
    fleet.wait_for_message(jobs, due_from_ms=jobs.first_due_ms)

    freezes = []
    for number in range(form.freezes):
        wait_for_instant(next_second_ms() + 3 * number)  # a batch is due: some find it in hand
        freeze = _freeze_until_another_takes_over(fleet)
        freezes.append(freeze)
        wait_for_instant(freeze.at_ms + round((fleet.timing.lease_ttl_s + _SLACK_S) * 1000))
        resumed_at_ms = now_ms()
        freeze.frozen.resume()
        freeze.frozen.wait_for_line(f"term {freeze.epoch} ended")
        _wait_for_sign_of_life(fleet, freeze.frozen, since_ms=resumed_at_ms)
        fleet.wait_for_message(jobs, due_from_ms=resumed_at_ms)
    freezes[-1].successor.terminate()
    assert fleet.wait_for_holder(other_than=freezes[-1].successor) is freezes[-1].frozen
    account = fleet.finish(jobs, until_ms=next_second_ms(after_s=1))

    in_hand = frozenset().union(*(freeze.in_hand for freeze in freezes))
    inside = sum(freeze.tries - 1 for freeze in freezes)
    report(f"{account}, {len(in_hand)} in hand at {form.freezes} freezes and {inside} inside a transaction")
    assert not account.lost
    assert not account.strangers
    assert account.sent_again <= in_hand
    assert not account.indistinct
    assert not account.not_run
    assert not account.run_twice


def _freeze_until_another_takes_over(fleet: Fleet) -> Freeze:
    """Freeze the holder, for as long as somebody waits for it inside a transaction again and again."""
    timing = fleet.timing
    assert timing.rescue_after_s is not None
    # 1: the next due time may be that far away.
    within_s = 1 + timing.rescue_after_s + timing.poll_interval_s + _SLACK_S + _INSIDE_A_TRANSACTION_S
    in_hand: frozenset[str] = frozenset()
    for number in range(1, _MOST_TRIES + 1):
        holder, lease = fleet.wait_for_holder(), fleet.read_lease()
        assert lease is not None
        at_ms = now_ms()
        holder.freeze()
        in_hand |= fleet.read_claimed()
        successor = fleet.find_other_holder(holder, within_s=within_s)
        if successor is not None:
            return Freeze(
                frozen=holder,
                at_ms=at_ms,
                epoch=lease.epoch,
                successor=successor,
                in_hand=in_hand,
                tries=number,
            )
        # On SQLite a process that is frozen inside a transaction keeps everybody out.
        assert fleet.database.waits_for_frozen_writers, f"nobody took over from {holder} within {within_s} s"
        resumed_at_ms = now_ms()
        holder.resume()
        _wait_for_sign_of_life(fleet, holder, since_ms=resumed_at_ms)
    pytest.fail(f"frozen {_MOST_TRIES} times, each time inside a transaction")


def _wait_for_sign_of_life(fleet: Fleet, process: Process, *, since_ms: int) -> None:
    wait_until(
        lambda: fleet.read_last_seen_ms(process) > since_ms,
        f"{process} to report that it lives",
        within_s=10 * fleet.timing.heartbeat_s,
    )
