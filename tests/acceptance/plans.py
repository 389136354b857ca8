"""What a scheduler has planned, on the database ``default``, and whether it has seen an edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django_leased_cron.models import JobState

Plans = Mapping[int, tuple[str, int | None]]
"""Planning inputs and next due time, by job id."""


def read_plans(ids: Sequence[int]) -> Plans:
    rows = JobState.objects.filter(job_id__in=ids).values_list("job_id", "inputs", "next_due_at_ms")
    return {job_id: (inputs, next_due_at_ms) for job_id, inputs, next_due_at_ms in rows}


def have_changed(before: Plans, ids: Sequence[int]) -> bool:
    """Return whether the plans of all these jobs are others than before, or gone."""
    now = read_plans(ids)
    return all(now.get(job_id) != before.get(job_id) for job_id in ids)
