"""An occurrence's names on the wire: fixed for ever, other people's logs hold them."""

from __future__ import annotations

import pytest

from django_leased_cron.core.occurrence import build_task_id, format_instant


def test_task_id_recipe_is_fixed() -> None:
    """Computed once, by hand; whoever changes this value changes what is on the wire."""
    task_id = build_task_id(tenant_key="default", job_id=42, due_at_ms=1_774_746_000_000)
    assert task_id == "11e38a2d-0273-5a81-93af-8560c2cf5d4f"


def test_task_id_differs_by_tenant_job_and_slot() -> None:
    """And by nothing else."""
    names = [("a", 1, 5), ("b", 1, 5), ("a", 2, 5), ("a", 1, 6), ("a", 1, 5)]
    ids = [build_task_id(tenant_key=key, job_id=job_id, due_at_ms=due_at_ms) for key, job_id, due_at_ms in names]
    assert len(set(ids)) == 4
    assert ids[0] == ids[-1]


@pytest.mark.parametrize(
    ("at_ms", "text"),
    [
        (1_774_746_000_000, "2026-03-29T01:00:00.000Z"),
        (1_774_746_000_007, "2026-03-29T01:00:00.007Z"),
        (1_774_745_999_999, "2026-03-29T00:59:59.999Z"),
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
    ],
)
def test_instant_is_shown_in_utc_with_milliseconds(at_ms: int, text: str) -> None:
    """No rounding, no local time."""
    assert format_instant(at_ms) == text
