"""Events as log lines: every one has a name, a level, and a sentence that its facts fill."""

from __future__ import annotations

import dataclasses
import logging
import typing
from collections.abc import Callable

import pytest

from django_leased_cron.core import events
from django_leased_cron.core.events import Event
from django_leased_cron.core.lease import TakeoverReason
from django_leased_cron.core.lease_machine import EndReason
from django_leased_cron.instrumentation import NAMES, ensure_handler, log_event, logger

EVENT_TYPES: tuple[type[Event], ...] = typing.get_args(Event)
EXAMPLES: dict[str, object] = {
    "bool": False,
    "int": 3,
    "float": 1.5,
    "str": "acme",
    "Sequence[str]": ("nightly", "hourly"),
    "TakeoverReason": TakeoverReason.RESCUE,
    "EndReason": EndReason.TRUST_ENDED,
    "Exception": ZeroDivisionError("division by zero"),
}


def build(kind: type[Event], **facts: object) -> Event:
    """Return an event with an example for each fact that is not given."""
    examples = {field.name: EXAMPLES[str(field.type)] for field in dataclasses.fields(kind)}
    return typing.cast(Callable[..., Event], kind)(**examples | facts)


def log(caplog: pytest.LogCaptureFixture, event: Event) -> logging.LogRecord:
    """Return the one record that an event makes."""
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="django_leased_cron"):
        log_event(event)
    [record] = caplog.records
    return record


def test_every_event_there_is_has_a_line() -> None:
    """In the module and in the union alike; no line without an event, no name twice."""
    in_module = {kind for kind in vars(events).values() if dataclasses.is_dataclass(kind)}
    assert set(EVENT_TYPES) == in_module == set(NAMES)
    assert len({name for name, _, _ in NAMES.values()}) == len(NAMES)


@pytest.mark.parametrize("kind", EVENT_TYPES, ids=lambda kind: kind.__name__)
def test_line_is_filled_by_the_facts_of_its_event(caplog: pytest.LogCaptureFixture, kind: type[Event]) -> None:
    """A placeholder without a fact would be a traceback on stderr in the middle of the night."""
    name, level, _ = NAMES[kind]
    record = log(caplog, build(kind))
    assert "%(" not in record.getMessage()
    assert (record.__dict__["event"], record.levelno, record.name) == (name, level, "django_leased_cron")


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (
            build(events.LeaseAcquired, previous_holder_id="host-1-ab", epoch=4),
            "Tenant 'acme': lease acquired (rescue) from 'host-1-ab', epoch 4",
        ),
        (build(events.TermEnded, epoch=4), "Tenant 'acme': term 4 ended (trust_ended)"),
        (
            build(events.JobFlagged, job_id=7, error="crontab_hour '25': no such hour"),
            "Tenant 'acme': job 7 is not scheduled: crontab_hour '25': no such hour",
        ),
        (
            build(events.DatabaseOutage, doing="renewing leases", detail="database 'default': connection refused"),
            "Failed renewing leases: database 'default': connection refused; trying again",
        ),
    ],
)
def test_sentence_says_what_happened_and_to_whom(caplog: pytest.LogCaptureFixture, event: Event, sentence: str) -> None:
    """Plain words, the values in them."""
    assert log(caplog, event).getMessage() == sentence


@pytest.mark.parametrize(
    ("level", "kinds"),
    [
        (logging.ERROR, [events.DatabaseOutage, events.BrokerOutage, events.LoopFailed]),
        (logging.WARNING, [events.JobFlagged, events.RescueWithheld, events.ClockSuspended]),
        (logging.INFO, [events.LeaseAcquired, events.TermEnded, events.DatabaseRecovered, events.BrokerRecovered]),
        (logging.DEBUG, [events.BatchDispatched]),
    ],
)
def test_level_follows_what_a_person_must_do(level: int, kinds: list[type[Event]]) -> None:
    """ERROR: something is broken. WARNING: something is held back. INFO: a change. DEBUG: the daily work."""
    assert {NAMES[kind][1] for kind in kinds} == {level}


def test_lines_go_to_stderr_where_the_project_has_said_nothing_of_them(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, and from INFO on; a project's own ``LOGGING`` is left alone."""
    ensure_handler()
    assert logger.handlers == []  # the root logger has handlers: pytest's
    caplog.set_level(logging.WARNING, logger=logger.name)  # set back afterwards
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", [])
    ensure_handler()
    ensure_handler()
    assert [type(handler) for handler in logger.handlers] == [logging.StreamHandler]
    assert logger.isEnabledFor(logging.INFO)


def test_only_an_error_of_ours_comes_with_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """What a server did is in its message."""
    error = ZeroDivisionError("division by zero")
    exc_info = log(caplog, events.LoopFailed(doing="planning", error=error)).exc_info
    assert exc_info is not None
    assert exc_info[1] is error
    assert log(caplog, build(events.DatabaseOutage)).exc_info is None
