"""The text that says what a job was planned from.

The database builds this text from a job's row and its schedule's row, in one SQL expression per vendor; the planner
parses it, stores it verbatim beside the plan, and a claim compares it, in SQL, with the text of the rows as they are
then. Python never builds it, so "has this job's schedule changed?" needs no arithmetic, no clock and no lock.

Columns are joined by the unit separator (``\\x1f``) in the order of :data:`COLUMNS`. A NULL is the empty string.
Instants are ``YYYY-MM-DD HH:MM:SS[.ffffff]`` in the storage zone (UTC, or the local zone where ``USE_TZ`` is off and
the database has no zone of its own).

:data:`FORMAT` goes up with every change of :data:`COLUMNS` or of how a column is written. Plans of another format are
given the new text without being planned anew (a rolling deploy would otherwise look like an edit of every job).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django_leased_cron.exceptions import MalformedJobError

FORMAT: Final = 1
SEPARATOR: Final = "\x1f"

COLUMNS: Final = (
    "interval_id",
    "interval_every",
    "interval_period",
    "crontab_id",
    "crontab_minute",
    "crontab_hour",
    "crontab_day_of_week",
    "crontab_day_of_month",
    "crontab_month_of_year",
    "crontab_timezone",
    "solar_id",
    "solar_event",
    "solar_latitude",
    "solar_longitude",
    "clocked_id",
    "clocked_time",
    "one_off",
    "start_time",
    "expires",
)
"""``*_id`` is the foreign key on the job; the other schedule columns are NULL where the schedule's row is missing."""


@dataclass(frozen=True, slots=True)
class PlanningInputs:
    """The columns of :data:`COLUMNS`, as text."""

    values: tuple[str, ...]

    def __getitem__(self, column: str) -> str:
        return self.values[COLUMNS.index(column)]

    @classmethod
    def split(cls, text: str) -> PlanningInputs:
        """Split what the database built.

        Raises:
            MalformedJobError: a column holds the separator itself.
        """
        values = tuple(text.split(SEPARATOR))
        if len(values) != len(COLUMNS):
            raise MalformedJobError("schedule", text, "a field holds a control character; write it anew")
        return cls(values)
