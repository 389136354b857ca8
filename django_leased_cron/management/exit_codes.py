"""Exit codes of all commands: 0 done; 1 a check found something, or nothing to act on; 2 usage or configuration."""

from __future__ import annotations

from typing import Final

from django.core.management.base import CommandError

FOUND: Final = 1
MISCONFIGURED: Final = 2


def misconfigured(problems: list[str]) -> CommandError:
    """Return the error that prints all problems at once and exits 2."""
    return CommandError("\n".join(problems), returncode=MISCONFIGURED)
