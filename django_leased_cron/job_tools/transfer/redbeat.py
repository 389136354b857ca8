"""Entries from RedBeat: hashes in Redis whose field ``definition`` is JSON.

Keys are ``redbeat:NAME`` (or another prefix, ``redbeat_key_prefix``), and the sorted set ``redbeat::schedule`` holds
all of them. Plain Redis only: no Sentinel, no cluster. What is due is not taken over, only what is scheduled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from celery import Celery
from celery.schedules import ParseException, crontab, schedule

from django_leased_cron.job_tools.transfer.beat_schedule import convert_beat_entry
from django_leased_cron.job_tools.transfer.entries import Entry, UnreadableSourceError

_ANSWER_WITHIN_S: Final = 5.0


def read_redbeat_entries(app: Celery) -> Sequence[Entry]:
    """Return the entries that RedBeat keeps for an app, in order of their names.

    Raises:
        UnreadableSourceError: Redis does not answer, or its client library is not installed.
    """
    url = app.conf.get("redbeat_redis_url") or app.conf.get("REDBEAT_REDIS_URL") or app.conf.broker_url
    prefix = app.conf.get("redbeat_key_prefix") or app.conf.get("REDBEAT_KEY_PREFIX") or "redbeat:"
    try:
        redis = import_module("redis")
    except ImportError as exc:
        raise UnreadableSourceError("RedBeat", "needs the package redis: pip install redis") from exc
    try:
        with redis.Redis.from_url(
            url, decode_responses=True, socket_timeout=_ANSWER_WITHIN_S, socket_connect_timeout=_ANSWER_WITHIN_S
        ) as client:
            keys = client.zrange(f"{prefix}:schedule", 0, -1)
            definitions = {key: client.hget(key, "definition") for key in keys}
    except (redis.RedisError, ValueError) as exc:  # ValueError: no URL of Redis
        raise UnreadableSourceError("RedBeat", f"cannot be read: {exc}") from exc
    return [
        _convert(key.removeprefix(prefix), definition, app=app)
        for key, definition in sorted(definitions.items())
        if definition is not None  # deleted, and RedBeat has not swept its key yet
    ]


def _convert(name: str, text: str, *, app: Celery) -> Entry:
    try:
        definition = json.loads(text)
        found = _decode_schedule(definition["schedule"], app)
        return convert_beat_entry(name, {**definition, "schedule": found}, app=app)
    except (AttributeError, KeyError, ParseException, TypeError, ValueError) as exc:
        return Entry(name=name, document={}, problems=[f"its definition cannot be read ({type(exc).__name__}: {exc})"])


def _decode_schedule(written: Mapping[str, Any], app: Celery) -> Any:
    """Return the Celery schedule that RedBeat has encoded; what has no such kind is left to be refused."""
    fields = {key: value for key, value in written.items() if key != "__type__"}
    match written["__type__"]:
        case "interval":
            return schedule(run_every=fields["every"], relative=fields.get("relative", False), app=app)
        case "crontab":
            return crontab(**fields, app=app)
        case _:
            return written
