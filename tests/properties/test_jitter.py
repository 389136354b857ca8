"""Jitter is bounded, for every job and slot."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from django_leased_cron.core.jitter import jittered


@given(due=st.integers(0, 2**45), job_id=st.integers(1, 2**40), jitter_s=st.integers(1, 10**6))
def test_jitter_stays_within_its_bound(due: int, job_id: int, jitter_s: int) -> None:
    """Never early, and late by less than the jitter."""
    assert 0 <= jittered(due, job_id=job_id, jitter_s=jitter_s) - due < jitter_s * 1000
