"""Everything this app raises on its own account.

Children take facts, build their own message and keep the facts as attributes, so that a handler can act on them
without reading text. Expected outcomes (somebody else holds the lease, nothing is due) are values, not exceptions.
"""

from __future__ import annotations

from collections.abc import Sequence


class LeasedCronError(Exception):
    """Root of all errors of this app."""


class ConfigurationError(LeasedCronError):
    """The settings, options or installation cannot work; names every problem at once."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class StoreError(LeasedCronError):
    """The database did not do what was asked, and what it did may be unknown (never read as "not holder": I7)."""

    def __init__(self, alias: str, detail: str) -> None:
        self.alias = alias
        self.detail = detail
        super().__init__(f"database {alias!r}: {detail}")


class DatabaseUnavailableError(StoreError):
    """No answer: refused, broken, timed out or locked for too long. Worth trying again."""


class DatabaseUnreachableError(DatabaseUnavailableError):
    """There is no connection to be had, or it was lost: whoever asks next will hear the same."""


class CommitOutcomeUnknownError(DatabaseUnavailableError):
    """COMMIT was sent and its reply never came: the transaction may or may not have happened (rule A4)."""


class MissingTableError(StoreError):
    """A table of the app is not there."""

    def __init__(self, alias: str, detail: str, *, schema: str = "") -> None:
        self.schema = schema
        where, command = "", f"migrate --database={alias}"
        if schema:
            where, command = f" in schema {schema!r}", f"migrate_schemas --schema={schema}"
        super().__init__(alias, f"a table is missing{where} ({detail}); run: manage.py {command}")


class DatabaseClockError(StoreError):
    """The database's clock gave a reading that cannot be a time of day; nothing is decided by it."""

    def __init__(self, alias: str, reading_ms: object) -> None:
        self.reading_ms = reading_ms
        super().__init__(alias, f"its clock reads {reading_ms!r} ms since 1970; set the server's clock")


class MalformedJobError(LeasedCronError):
    """A job row cannot be planned or sent as it stands; it harms only itself (I8).

    Attributes:
        field: the column (of the job or of its schedule) that holds the bad value.
        value: the value as the database gave it; ``None`` where it is a task's arguments, which no log must show.
        reason: what is wrong with it and what would be right.
    """

    def __init__(self, field: str, value: object, reason: str) -> None:
        self.field = field
        self.value = value
        self.reason = reason
        super().__init__(f"{field}: {reason}" if value is None else f"{field} {value!r}: {reason}")

    @classmethod
    def from_unexpected(cls, error: Exception) -> MalformedJobError:
        """Return what to flag a job with whose row nobody here has thought of: the others go on (I8)."""
        return cls(
            "job", None, f"cannot be handled ({type(error).__name__}: {error}); correct its row, and report this"
        )
