"""Entries from a Celery app's ``beat_schedule``, those of ``add_periodic_task`` among them.

An entry says what beat would do with it; what has no column in a job's row is refused by name, not left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from numbers import Real
from typing import Any, Final

from celery import Celery
from celery.schedules import BaseSchedule, crontab, maybe_schedule, schedule, solar
from django_celery_beat.clockedschedule import clocked
from django_celery_beat.tzcrontab import TzAwareCrontab

from django_leased_cron.core.occurrence import format_instant
from django_leased_cron.exceptions import ConfigurationError
from django_leased_cron.job_tools.instants import read_instant
from django_leased_cron.job_tools.transfer.entries import Entry

_PLAIN: Final = ("task", "args", "kwargs", "enabled", "one_off", "start_time", "expires", "description")
"""What stands in a job's row under the same name; the last five as django-celery-beat's own scheduler takes them."""
_KEYS: Final = (*_PLAIN, "schedule", "options", "relative", "name")
_OPTIONS: Final = ("queue", "exchange", "routing_key", "priority", "headers", "expires", "expire_seconds")
_LEFT_OUT: Final[Mapping[str, object]] = {
    "args": [],
    "kwargs": {},
    "headers": {},
    "queue": None,
    "exchange": None,
    "routing_key": None,
    "priority": None,
    "expire_seconds": None,
}
"""What an entry that does not mention it means by that."""
_RELATIVE: Final = "relative: an interval keeps a fixed cadence, from its start_time if it has one; leave it out"
_SCHEDULES: Final = (int, float, timedelta, BaseSchedule)
_SECOND: Final = timedelta(seconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)


def read_beat_entries(app: Celery) -> Sequence[Entry]:
    """Return the entries of ``beat_schedule``, once the app's task modules are imported.

    Raises:
        ConfigurationError: it is no dict.
        ImportError: a task module cannot be imported.
    """
    app.loader.init_worker()
    app.finalize()
    return [convert_beat_entry(name, entry, app=app) for name, entry in read_beat_schedule(app).items()]


def read_beat_schedule(app: Celery) -> Mapping[str, object]:
    """Return ``beat_schedule`` as it is written.

    Raises:
        ConfigurationError: it is no dict; its type is named and not its value, which may hold tasks' arguments.
    """
    written: object = app.conf.beat_schedule
    if not isinstance(written, Mapping):
        problem = (
            f"Celery's configuration: beat_schedule is of type {type(written).__name__!r}. Write a dict of entries."
        )
        raise ConfigurationError([problem])
    return written


def convert_beat_entry(name: str, entry: object, *, app: Celery) -> Entry:
    """Return an entry of ``beat_schedule`` as that of a job.

    Of a crontab without a time zone of its own it is that of the app, in which beat reads it.
    """
    if not isinstance(entry, Mapping):
        return Entry(name=name, document={}, problems=["must be a dict"])
    problems = [f"there is no option {key!r}" for key in entry if key not in _KEYS]
    if entry.get("relative"):
        problems.append(_RELATIVE)
    document: dict[str, object] = {"job": name, **_LEFT_OUT, **{key: entry[key] for key in _PLAIN if key in entry}}
    for convert, key in ((_convert_schedule, "schedule"), (_convert_options, "options")):
        try:
            document |= convert(entry.get(key), app)
        except ValueError as exc:
            problems.append(f"{key}: {exc}")
    return Entry(name=name, document=document, problems=problems)


def _convert_schedule(value: Any, app: Celery) -> Mapping[str, object]:
    is_known = isinstance(value, _SCHEDULES)
    found: Any = maybe_schedule(value, app=app) if is_known else None
    kind = type(found)  # not of a subclass: nobody knows what it means by the fields that it inherits
    if kind is schedule:
        if found.relative:
            raise ValueError(_RELATIVE)
        return {"schedule": {"interval": _convert_interval(found.run_every)}}
    if kind in (crontab, TzAwareCrontab):
        names = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
        fields = {name: _join(getattr(found, f"_orig_{name}")) for name in names}
        return {"schedule": {"crontab": fields | {"timezone": str(found.tz)}}}
    if kind is solar:
        position = {"latitude": float(found.lat), "longitude": float(found.lon)}
        return {"schedule": {"solar": {"event": found.event} | position}}
    if kind is clocked:
        at = format_instant(read_instant(found.clocked_time))
        return {"schedule": {"clocked": {"clocked_time": at}}, "one_off": True}
    message = f"{value!r} is no interval, crontab, solar or clocked schedule"
    raise ValueError(message)


def _convert_interval(run_every: timedelta) -> Mapping[str, object]:
    if run_every % _SECOND:
        return {"every": run_every // _MICROSECOND, "period": "microseconds"}
    return {"every": run_every // _SECOND, "period": "seconds"}


def _join(field: Any) -> str:
    """Return a crontab's field as text; Celery also takes a number, or a collection of numbers and texts."""
    if isinstance(field, str | int):
        return str(field)
    # In one order in every process: what is the same is to look the same.
    return ",".join(map(str, field if isinstance(field, list | tuple) else sorted(field, key=str)))


def _convert_options(value: Any, app: Celery) -> Mapping[str, object]:
    options: Any = {} if value is None else value
    if not isinstance(options, Mapping):
        message = "must be a dict"
        raise ValueError(message)
    unknown = [key for key in options if key not in _OPTIONS]
    if unknown:
        message = f"a job has no column for {', '.join(map(repr, unknown))}; it has {', '.join(_OPTIONS)}"
        raise ValueError(message)
    converted: dict[str, object] = {key: value for key, value in options.items() if key != "expires"}
    expires = options.get("expires")
    if isinstance(expires, timedelta):
        expires = expires.total_seconds()
    if isinstance(expires, datetime):
        converted["expires"] = expires
    elif isinstance(expires, Real):
        converted["expire_seconds"] = _whole_seconds(float(expires))
    elif expires is not None:
        message = f"expires {expires!r} is no number of seconds and no date and time"
        raise ValueError(message)
    return converted


def _whole_seconds(seconds: float) -> int:
    if seconds != int(seconds) or seconds < 1:
        message = f"expires {seconds!r}: give a whole number of seconds, 1 or more"
        raise ValueError(message)
    return int(seconds)
