"""Jitter: bounded, stable, different from job to job and from slot to slot."""

from __future__ import annotations

from django_leased_cron.core.jitter import jittered

NOON = 1_780_315_200_000


def test_no_jitter_leaves_the_due_time() -> None:
    """A job without jitter fires when it is due."""
    assert jittered(NOON, job_id=1, jitter_s=0) == NOON


def test_jitter_is_the_same_on_every_machine_and_in_every_version() -> None:
    """A successor must find the moment its predecessor had in mind."""
    assert jittered(NOON, job_id=42, jitter_s=60) - NOON == 23_999


def test_jobs_due_together_are_spread_evenly() -> None:
    """A thousand jobs over a minute: every tenth of it gets about a hundred, and none is outside."""
    offsets = [jittered(NOON, job_id=job_id, jitter_s=60) - NOON for job_id in range(1000)]
    assert 0 <= min(offsets) <= max(offsets) < 60_000
    by_tenth = [sum(tenth == offset // 6000 for offset in offsets) for tenth in range(10)]
    assert min(by_tenth) > 60
    assert max(by_tenth) < 140


def test_job_is_not_always_the_last() -> None:
    """Its place changes from slot to slot."""
    offsets = {jittered(NOON + slot, job_id=42, jitter_s=60) - slot for slot in range(0, 600_000, 60_000)}
    assert len(offsets) == 10
