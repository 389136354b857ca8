"""What the broker and the database have of a simulation, beside what they must have."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from datetime import UTC, datetime

from django_leased_cron.models import Occurrence
from tests.simulation.model import Expectation, Slot
from tests.simulation.timeline import Message


def find_differences(expected: Expectation, messages: Sequence[Message], rows: Iterable[Occurrence]) -> Iterator[str]:
    """Yield each difference, in words."""
    rows = list(rows)
    yield from expected.neglected
    yield from _find_wrong_messages(expected, messages)
    yield from _find_wrong_stretches(expected, rows)
    yield from _find_wrong_states(expected, rows)


def _find_wrong_messages(expected: Expectation, messages: Sequence[Message]) -> Iterator[str]:
    times = Counter(message.slot for message in messages)
    yield from _tell("not dispatched", expected.dispatched - times.keys())
    yield from _tell("dispatched", times.keys() - expected.dispatched)
    yield from _tell("repeated", {slot for slot, count in times.items() if count > 1} - expected.repeated)
    names = {(message.slot, message.task_id) for message in messages}
    if not len(names) == len(times) == len({task_id for _, task_id in names}):
        yield f"{len(times)} occurrences have {len(names)} task ids"


def _find_wrong_stretches(expected: Expectation, rows: Iterable[Occurrence]) -> Iterator[str]:
    """Compare stretches with slots: within its ends each has those that the model misses, and together all of them."""
    missed: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for reason, slots in expected.missed.items():
        for job_id, due_ms in slots:
            missed[reason, job_id].append(due_ms)
    found: Counter[tuple[str, int]] = Counter()
    for row in rows:
        if row.state == "skipped" and row.reason in ("catch_up", "window"):
            first_ms = row.due_at_ms if row.first_due_at_ms is None else row.first_due_at_ms
            within = {due_ms for due_ms in missed[row.reason, row.job_id] if first_ms <= due_ms <= row.due_at_ms}
            if len(within) != row.slots or not {first_ms, row.due_at_ms} <= within:
                yield f"job {row.job_id}: {row.slots} slots, {row.reason}, from {first_ms} to {row.due_at_ms}"
            found[row.reason, row.job_id] += row.slots
    for (reason, job_id), due in missed.items():
        if found[reason, job_id] != len(due):
            yield f"job {job_id}: {found[reason, job_id]} slots are recorded as {reason}, {len(due)} are"


def _find_wrong_states(expected: Expectation, rows: Iterable[Occurrence]) -> Iterator[str]:
    slots_by_state: defaultdict[str, set[Slot]] = defaultdict(set)
    for row in rows:
        slots_by_state[row.state].add((row.job_id, row.due_at_ms))
    sent, skipped, uncertain = (slots_by_state.pop(state, set()) for state in ("sent", "skipped", "uncertain"))
    yield from _tell("left in another state", set().union(*slots_by_state.values()))
    yield from _tell("recorded as sent", sent - expected.dispatched)
    # What was given up may have reached the broker before its process died: nobody can say.
    yield from _tell("not recorded as sent", expected.dispatched - sent - expected.given_up)
    yield from _tell("not recorded as given up", expected.given_up - skipped - uncertain)
    within = {slot for row in rows if row.state == "skipped" for slot in _find_within(row, expected.replaced)}
    yield from _tell("not recorded as replaced", expected.replaced - within)


def _find_within(row: Occurrence, slots: Set[Slot]) -> Iterator[Slot]:
    """Yield those of the slots that a row of skipped ones covers."""
    if row.slots == 1:
        yield from slots & {(row.job_id, row.due_at_ms)}
        return
    first_ms = row.due_at_ms if row.first_due_at_ms is None else row.first_due_at_ms
    yield from ((job_id, due) for job_id, due in slots if job_id == row.job_id and first_ms <= due <= row.due_at_ms)


def _tell(what: str, slots: Set[Slot]) -> Sequence[str]:
    return [
        f"{what}: job {job_id} at {datetime.fromtimestamp(due_ms // 1000, UTC).isoformat()} ({due_ms})"
        for job_id, due_ms in sorted(slots)
    ]
