"""``leased_scheduler_hand_over``: the lease moves, and no process stops."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.forms import Form, in_both_forms
from tests.acceptance.waiting import next_second_ms, wait_for_instant

_IN_A_BATCH_MS = 5
_BATCH_MS = 200

on_all_stacks = pytest.mark.parametrize(
    "stack",
    ["postgres-redis", "sqlite-filesystem", pytest.param("mariadb-rabbitmq", marks=pytest.mark.full)],
    indirect=True,
)


@in_both_forms
@on_all_stacks
def test_ask_the_holder_to_hand_over(fleet: Fleet, form: Form, report: Report) -> None:
    """The next holder is there at once, whatever is in hand, and what is due meanwhile is sent once, and in time."""
    fleet.leased_cron = form.leased_cron
    fleet.start(supervisors=3)
    jobs = fleet.add_jobs(20)
    fleet.wait_for_message(jobs, due_from_ms=jobs.first_due_ms)

    gaps_ms: dict[bool, list[int]] = {False: [], True: []}
    for number in range(form.stops):
        in_a_batch = number % 2 == 1
        holder = fleet.wait_for_holder()
        wait_for_instant(next_second_ms() + (_IN_A_BATCH_MS if in_a_batch else 500))
        requested_at_ms = fleet.request_hand_over()
        fleet.wait_for_holder(other_than=holder)
        lease = fleet.read_lease()
        assert lease is not None
        gaps_ms[in_a_batch].append(lease.acquired_at_ms - requested_at_ms)
        fleet.wait_for_message(jobs, due_from_ms=requested_at_ms)
    account = fleet.finish(jobs, until_ms=next_second_ms())

    late_ms = account.worst_lateness_ms()
    report(f"{account}, {late_ms} ms late at worst, next holder after {gaps_ms[False]}, in a batch {gaps_ms[True]} ms")
    assert max(gaps_ms[False]) <= fleet.polite_gap_ms
    assert max(gaps_ms[True]) <= fleet.polite_gap_ms + _BATCH_MS
    assert late_ms <= fleet.polite_gap_ms + _BATCH_MS
    assert not account.lost
    assert not account.strangers
    assert not account.sent_again
    assert not account.not_run
    assert not account.run_twice


@on_all_stacks
def test_command_says_who_holds_now(fleet: Fleet) -> None:
    """The old holder stands by, and may be asked to take the lease back."""
    fleet.start(supervisors=2)
    holders = [fleet.wait_for_holder()]
    for _ in range(2):
        command = fleet.run_command("leased_scheduler_hand_over", "--tenant", "default")
        assert command.wait_for_exit(within_s=30) == 0, command.read_log()
        holders.append(fleet.wait_for_holder(other_than=holders[-1]))
        line = command.read_log().splitlines()[-1].split()
        assert [name.rsplit("-", 2)[1] for name in line[1:]] == [str(holder.pid) for holder in holders[-2:]]
    assert holders[0] is holders[2]
    assert all(holder.is_alive for holder in holders)


@on_all_stacks
def test_only_process_gets_the_lease_back(fleet: Fleet) -> None:
    """After two polls, with a new epoch: a hand-over never leaves a tenant alone."""
    fleet.start(supervisors=1)
    fleet.wait_for_holder()
    before = fleet.read_lease()
    command = fleet.run_command("leased_scheduler_hand_over")
    assert command.wait_for_exit(within_s=30) == 0, command.read_log()
    after = fleet.read_lease()
    assert before is not None
    assert after is not None
    assert (after.holder_id, after.epoch) == (before.holder_id, before.epoch + 1)
