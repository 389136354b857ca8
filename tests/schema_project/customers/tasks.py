"""Tasks that show where they ran."""

from __future__ import annotations

import os
from pathlib import Path

from celery import shared_task
from django.db import connection


@shared_task
def note_schema() -> None:
    """Write the schema that the task's connection is in."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_schema()")
        (schema,) = cursor.fetchone()
    with Path(os.environ["SCHEMA_PROJECT_NOTES"]).open("a") as notes:
        notes.write(f"{schema}\n")
