"""Spreading jobs that are due together."""

from __future__ import annotations

from hashlib import blake2b


def jittered(due_at_ms: int, *, job_id: int, jitter_s: int) -> int:
    """Return when an occurrence fires: its due time plus less than ``jitter_s`` seconds.

    The same on every machine and at every asking, because a successor must find the moment its predecessor had in
    mind; different from job to job and from slot to slot, because a job must not be the last one for ever.
    """
    if jitter_s == 0:
        return due_at_ms
    digest = blake2b(f"{job_id}\n{due_at_ms}".encode(), digest_size=8).digest()
    return due_at_ms + int.from_bytes(digest) % (jitter_s * 1000)
