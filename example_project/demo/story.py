"""What is done to whom, and when."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from django_leased_cron.conf import get_settings
from django_leased_cron.models import JobState
from example_project.demo.account import Account, tell
from example_project.demo.fleet import DemoError, Fleet, Member
from example_project.demo.jobs import Due, Job, create_jobs
from example_project.demo.summary import Summary, count, read_runs

SCHEDULERS = 3
# Seconds after the first due second. The fraction puts the deeds between two due seconds.
KILL_AT, FREEZE_AT, STOP_AT, END_AT = 5.4, 13.4, 21.4, 27.0
REPLACE_AFTER, FROZEN_FOR = 2.0, 4.0
MINUTELY_AT = 6
"""The one firing of the job of each minute falls into the time in which nobody holds the lease."""

_LONGEST_START_S = 50.0
_LONGEST_END_S = 12.0
_LOOK_S = 0.05
_FAILED = 1


def tell_story(folder: Path, *, started_at: float) -> int:
    """Run the demo; return 0 only if every due occurrence was run, and once."""
    with Fleet(folder) as fleet:
        try:
            summary = _Story(fleet, folder, give_up_at=started_at + _LONGEST_START_S).run()
        except DemoError as exc:
            tell(str(exc))
            return _FAILED
        lines = list(summary.lines()) if summary.is_clean else [*summary.lines(), *fleet.read_logs()]
    print("\n".join(lines))
    return 0 if summary.is_clean else _FAILED


class _Story:
    def __init__(self, fleet: Fleet, folder: Path, *, give_up_at: float) -> None:
        self._fleet = fleet
        self._folder = folder
        self._give_up_at = give_up_at
        self._account = Account(fleet)
        self._plot: list[tuple[float, Callable[[], None]]] = []
        self._resumed: tuple[Member, int] | None = None

    def run(self) -> Summary:
        self._start()
        jobs, start_s = self._create_jobs()
        start_ms, end_ms = start_s * 1000, round((start_s + END_AT) * 1000)
        due = [due for job in jobs for due in job.find_due(start_ms, end_ms)]
        self._account.expect(due)
        for seconds, deed in ((KILL_AT, self._kill), (FREEZE_AT, self._freeze), (STOP_AT, self._stop)):
            self._do_at(start_s + seconds, deed)
        self._give_up_at = time.monotonic() + start_s + END_AT - time.time() + _LONGEST_END_S
        self._wait(lambda: time.time() > start_s + END_AT and not self._plot and self._account.has_told_all)
        return self._finish(due, start_ms=start_ms, end_ms=end_ms)

    def _start(self) -> None:
        timing = get_settings().timing
        if timing.rescue_after_s is not None:
            late_s = timing.rescue_after_s + timing.poll_interval_s + 0.2
            in_hand_s = late_s + timing.publish_timeout_s
            tell(f"Promised where a holder fails: {late_s:.1f} s late at most, {in_hand_s:.1f} s what it had in hand.")
        tell(f"A worker and {SCHEDULERS} schedulers are started; SQLite and the broker's files are in {self._folder}.")
        self._fleet.start_worker()
        tell(f"The schedulers are {', '.join(str(self._fleet.start_scheduler()) for _ in range(SCHEDULERS))}.")
        if not self._wait(lambda: self._account.find_holder() is not None):
            message = "no scheduler took the lease"
            raise DemoError(message, self._fleet.read_logs())

    def _create_jobs(self) -> tuple[Sequence[Job], int]:
        """Create the jobs while the schedulers run; return the first second from which everything is planned."""
        first_s = math.ceil(time.time()) + 2
        jobs = create_jobs(first_due_at_s=first_s, minutely_due_at_s=first_s + MINUTELY_AT)
        *names, last = [job.name for job in jobs]
        tell(f"Jobs are added: {', '.join(names)}, due each second, and {last}, due each minute.")
        if not self._wait(lambda: JobState.objects.filter(next_due_at_ms__isnull=False).count() == len(jobs)):
            message = "the jobs were not planned"
            raise DemoError(message, self._fleet.read_logs())
        return jobs, max(first_s, math.ceil(time.time()))

    def _wait(self, until: Callable[[], bool]) -> bool:
        """Look, tell, and do what the plot has next, until the condition holds; ``False``: it took too long."""
        while not until():
            if time.monotonic() > self._give_up_at:
                return False
            self._fleet.check()
            self._account.look()
            if self._plot and time.time() >= self._plot[0][0]:
                _, deed = self._plot.pop(0)
                deed()
            self._tell_of_the_resumed()
            time.sleep(_LOOK_S)
        return True

    def _do_at(self, at: float, deed: Callable[[], None]) -> None:
        self._plot = sorted([*self._plot, (at, deed)], key=lambda entry: entry[0])

    def _do_in(self, seconds: float, deed: Callable[[], None]) -> None:
        self._do_at(time.time() + seconds, deed)

    # The deeds

    def _kill(self) -> None:
        holder = self._find_victim(self._kill)
        if holder is not None:
            self._account.did("killed")
            holder.kill()
            tell(f"--- {holder} is killed: SIGKILL")
            self._do_in(REPLACE_AFTER, self._replace)

    def _freeze(self) -> None:
        holder = self._find_victim(self._freeze)
        if holder is not None:
            self._account.did("frozen")
            size = holder.log_size()
            holder.freeze()
            tell(f"--- {holder} is frozen for {FROZEN_FOR:.0f} s: SIGSTOP")
            self._do_in(FROZEN_FOR, lambda: self._resume(holder, size))

    def _resume(self, frozen: Member, log_size: int) -> None:
        if self._account.find_holder() is frozen and self._is_locked():
            tell(f"It was frozen inside a transaction: SQLite has one writer at a time, so all wait for {frozen.name}")
            self._account.forget_deed()
        frozen.resume()
        tell(f"--- {frozen} is resumed: SIGCONT")
        self._resumed = (frozen, log_size)

    def _stop(self) -> None:
        holder = self._find_victim(self._stop)
        if holder is not None:
            self._account.did("asked to stop")
            holder.stop()
            tell(f"--- {holder} is asked to stop: SIGTERM")
            self._do_in(REPLACE_AFTER, self._replace)

    def _replace(self) -> None:
        tell(f"--- {self._fleet.start_scheduler()} is started in its place")

    def _find_victim(self, again: Callable[[], None]) -> Member | None:
        """Return the holder; where there is none just now, put the deed off for a second."""
        holder = self._account.find_holder()
        if holder is None or holder.is_dismissed:
            self._do_in(1.0, again)
            return None
        return holder

    def _tell_of_the_resumed(self) -> None:
        if self._resumed is None:
            return
        member, size = self._resumed
        for line in member.logged_since(size):
            if " ended (" in line:
                tell(f"{member} lives on as a standby; its log: {line.partition('django_leased_cron: ')[2]}")
                self._resumed = None

    def _is_locked(self) -> bool:
        """Whether somebody keeps SQLite's one write lock."""
        connection = sqlite3.connect(self._folder / "db.sqlite3", timeout=0.2, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        finally:
            connection.close()
        return False

    # The end

    def _finish(self, due: Sequence[Due], *, start_ms: int, end_ms: int) -> Summary:
        """Let everything that is under way arrive and run, then count."""
        tell("The account ends here; what was sent is given time to run.")
        self._fleet.end_schedulers()
        wanted = {one.task_id for one in due}
        messages = self._folder / "messages"
        self._wait(lambda: wanted <= read_runs().keys() and not list(messages.glob("*.msg")))
        self._fleet.end_worker()
        return count(due, start_ms=start_ms, end_ms=end_ms, takeovers=self._account.takeovers)
