"""Any fault at any moment, for minutes: ``make soak MINUTES=10``. What it did is in the report: the seed repeats it."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

import pytest
from django.db import DatabaseError
from pytest_django import DjangoDbBlocker

from django_leased_cron.models import Occurrence
from tests.acceptance import faults
from tests.acceptance.account import Account
from tests.acceptance.conftest import Report
from tests.acceptance.fleet import Fleet
from tests.acceptance.lines import ServerLine
from tests.acceptance.ordeal import EVERYTHING
from tests.acceptance.processes import Process
from tests.acceptance.waiting import next_second_ms, now_ms, wait_for_instant

_MINUTES = float(os.environ.get("SOAK_MINUTES", "1"))
_SEED = int(os.environ.get("SOAK_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
_SUPERVISORS = 3
_JOBS = 20
_A_BATCH_TAKES_MS = 100
_LONGEST_FAULT_S = 6.0
_LONGEST_PAUSE_S = 4.0
_GOOD_ENDS = frozenset({"sent", "running", "succeeded"})
_EXPECTED_EXITS = frozenset({None, 0, -signal.SIGKILL})

Fault = Callable[[Fleet], AbstractContextManager[object]]


@pytest.fixture
def fleet_to_soak(stack: str, django_db_blocker: DjangoDbBlocker) -> Iterator[Fleet]:
    """Yield a fleet with servers of its own behind lines that can be cut."""
    with django_db_blocker.unblock():
        fleet = Fleet(stack, leased_cron=EVERYTHING, cuttable=True, on_own_servers=True)
        try:
            fleet.migrate()
            yield fleet
        finally:
            fleet.close()


@pytest.mark.full
@pytest.mark.timeout(0)
@pytest.mark.parametrize("stack", ["postgres-redis", "mariadb-redis", "sqlite-filesystem"], indirect=True)
def test_soak(fleet_to_soak: Fleet, stack: str, report: Report) -> None:
    """Faults of processes, database and broker, one or two at a time: every message and every row is accounted for."""
    fleet = fleet_to_soak
    if not stack.startswith("sqlite"):
        faults.give_a_user_of_its_own(fleet)
    soak = Soak(fleet, build_faults(stack), random.Random(_SEED))  # noqa: S311 - guards nothing
    soak.run(minutes=_MINUTES)
    verdict = soak.settle()
    report(f"seed {_SEED}: {verdict}")
    assert not verdict.problems


class Soak:
    """Does harm to a fleet at random, and reads at the end what came of it."""

    def __init__(self, fleet: Fleet, kinds: Mapping[str, Mapping[str, Fault]], choice: random.Random) -> None:
        self._fleet = fleet
        self._kinds = kinds
        self._choice = choice
        self._done: list[Harm] = []
        fleet.open_tap()
        fleet.start_supervisors(_SUPERVISORS)
        self._jobs = fleet.add_jobs(_JOBS)

    def run(self, *, minutes: float) -> None:
        end_ms = now_ms() + round(minutes * 60_000)
        while now_ms() < end_ms:
            self._harm()
            self._wait_up_to(_LONGEST_PAUSE_S)

    def settle(self) -> Verdict:
        account = self._fleet.settle(self._jobs, until_ms=next_second_ms(after_s=2))
        rows = dict(
            Occurrence.objects.using(self._fleet.database.alias)
            .filter(job_id__in=self._jobs.ids)
            .values_list("task_id", "state")
        )
        self._fleet.stop_supervisors()
        return _judge(self._fleet, account, rows, self._done)

    def _harm(self) -> None:
        # Where the project's settings make the broker's folder, a process that starts while it is away would do so.
        most = 1 if self._fleet.broker.made_by_settings else 2
        kinds = self._choice.sample(sorted(self._kinds), k=min(most, self._choice.choice((1, 1, 2))))
        names: list[str] = []
        began_at_ms = now_ms()
        with ExitStack() as stack:
            if self._choice.random() < 0.5:
                # In the middle of a batch: what is due comes due at whole seconds.
                wait_for_instant(next_second_ms() + self._choice.randrange(_A_BATCH_TAKES_MS))
            for kind in kinds:
                name = self._choice.choice(sorted(self._kinds[kind]))
                names.append(f"{kind} {name}")
                stack.enter_context(self._kinds[kind][name](self._fleet))
            self._wait_up_to(_LONGEST_FAULT_S)
        self._done += [Harm(name=name, began_at_ms=began_at_ms, ended_at_ms=now_ms()) for name in names]

    def _wait_up_to(self, seconds: float) -> None:
        wait_for_instant(now_ms() + round(self._choice.uniform(0.05, seconds) * 1000))


@dataclass(frozen=True, slots=True, kw_only=True)
class Harm:
    """One fault, with the time that it took to begin and to undo it."""

    name: str
    began_at_ms: int
    ended_at_ms: int

    def __str__(self) -> str:
        return f"{self.name} {(self.ended_at_ms - self.began_at_ms) / 1000:.1f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a soak came to."""

    account: Account
    done: Sequence[Harm]
    lost_by_broker: int
    problems: Sequence[str] = field(default_factory=list)

    def __str__(self) -> str:
        worst = max((sent[0] for sent in self.account.messages.values()), key=lambda message: message.lateness_ms)
        meanwhile = [
            str(harm)
            for harm in self.done
            if harm.ended_at_ms >= worst.due_at_ms and harm.began_at_ms <= worst.arrived_at_ms
        ]
        return (
            f"{len(self.done)} faults; {self.account}, {self.lost_by_broker} taken by the broker and lost,"
            f" {worst.lateness_ms} ms late at worst ({', '.join(meanwhile)}),"
            f" problems: {'; '.join(self.problems) or 'none'}"
        )


def _judge(fleet: Fleet, account: Account, rows: Mapping[str, str], done: Sequence[Harm]) -> Verdict:
    """Compare what came due with every row and every message."""
    lost = [task_id for task_id in account.due if task_id not in account.messages]
    # A Redis that is killed loses what it had handed to the reader whose connection died with it.
    was_killed = any(harm.name == "broker killed" for harm in done)
    lost_by_broker = [task_id for task_id in lost if rows.get(task_id) in _GOOD_ENDS and was_killed]
    found = {
        "no row": [task_id for task_id in account.due if task_id not in rows],
        "no good end": [
            f"{task_id} {rows[task_id]}" for task_id in account.due if rows.get(task_id, "sent") not in _GOOD_ENDS
        ],
        "lost": sorted(set(lost) - set(lost_by_broker)),
        "never due": sorted(account.strangers),
        "two messages of one attempt": sorted(account.indistinct),
        "ended by themselves": [
            str(process) for process in fleet.supervisors if process.exit_code not in _EXPECTED_EXITS
        ],
        "errors of ours": [
            line
            for process in fleet.supervisors
            for line in process.read_log().splitlines()
            if "Traceback" in line or "going on:" in line
        ],
    }
    problems = [f"{len(what)} {title}: {', '.join(what[:3])}" for title, what in found.items() if what]
    # I4: for each fault, the batches that one term had in hand.
    if len(account.sent_again) > 2 * _JOBS * len(done):
        problems.append(f"{len(account.sent_again)} sent again")
    return Verdict(account=account, done=done, lost_by_broker=len(lost_by_broker), problems=problems)


def build_faults(stack: str) -> Mapping[str, Mapping[str, Fault]]:
    """Return what can be done to a stack: by what it is done to, then by name."""
    processes: dict[str, Fault] = {
        "killed": _killed,
        "stopped": _stopped,
        "frozen": _frozen,
        "processors busy": lambda _: faults.processors_busy(4),
    }
    if stack.startswith("sqlite"):
        return {
            "process": processes,
            "database": {
                "gone": lambda fleet: faults.cut_off(fleet.database.line),
                "written to": lambda fleet: faults.locked(fleet, faults.WRITE_OF_NOTHING),
            },
            "broker": {"gone": lambda fleet: faults.cut_off(fleet.broker.line)},
        }
    return {
        "process": processes,
        "database": {
            "cut off": lambda fleet: faults.cut_off(fleet.database.line),
            "deaf": lambda fleet: faults.half_open(fleet.database.line, ServerLine.deafen),
            "mute": lambda fleet: faults.half_open(fleet.database.line, ServerLine.mute),
            "sessions terminated": lambda fleet: faults.sessions_terminated(fleet, every_s=1),
            "stopped": lambda fleet: faults.database_down(fleet, polite=True),
            "killed": lambda fleet: faults.database_down(fleet, polite=False),
            "read-only": faults.read_only,
            "lease locked": lambda fleet: faults.locked(fleet, faults.LOCK_OF_ALL_LEASES),
        },
        "broker": {
            "cut off": lambda fleet: faults.cut_off(fleet.broker.line),
            "deaf": lambda fleet: faults.half_open(fleet.broker.line, ServerLine.deafen),
            "mute": lambda fleet: faults.half_open(fleet.broker.line, ServerLine.mute),
            "silent": lambda fleet: faults.half_open(fleet.broker.line, ServerLine.silence),
            "frozen": lambda fleet: faults.frozen(fleet.own_broker),
            "killed": lambda fleet: faults.down(fleet.own_broker, polite=False),
        },
    }


def _choose(fleet: Fleet) -> Process:
    """Return the holder if it lives, else the first that does; one that is only starting is left alone."""
    ready = [process for process in fleet.running_supervisors() if "Ready as" in process.read_log()]
    holder = None
    with suppress(DatabaseError):  # it may be down at the same time
        holder = fleet.find_holder()
    return holder if holder in ready else ready[0]


@contextmanager
def _killed(fleet: Fleet) -> Iterator[None]:
    _choose(fleet).kill()
    yield
    fleet.start_supervisors(1)


@contextmanager
def _stopped(fleet: Fleet) -> Iterator[None]:
    process = _choose(fleet)
    process.terminate()
    yield
    fleet.start_supervisors(1)


@contextmanager
def _frozen(fleet: Fleet) -> Iterator[None]:
    process = _choose(fleet)
    process.freeze()
    yield
    process.resume()
