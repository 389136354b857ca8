"""The database's clock, for the ORM."""

from __future__ import annotations

from django.db.models.expressions import RawSQL

from django_leased_cron.database import build_dialect


def read_now_ms(alias: str) -> RawSQL:
    """Return the expression that reads a database's own clock, in milliseconds since the Unix epoch."""
    return RawSQL(build_dialect(alias).now_ms, ())  # noqa: S611 - a constant of ours
