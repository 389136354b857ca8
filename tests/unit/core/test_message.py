"""What is published for an occurrence, and which rows cannot be."""

from __future__ import annotations

import json
from datetime import UTC, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from django_leased_cron.core.message import build_publication, check_message
from django_leased_cron.core.outbox import JobMessage, UnconfirmedClaim
from django_leased_cron.core.publication import Publication
from django_leased_cron.exceptions import MalformedJobError
from tests.unit.core.job_rows import claimed, message
from tests.unit.core.timetables import NOON


def build(job_message: JobMessage, *, now_ms: int = NOON, storage_zone: tzinfo = UTC, **columns: Any) -> Publication:
    occurrence = claimed(job_message, due_at_ms=NOON, **columns)
    return build_publication(occurrence, job_message, tenant_key="acme", now_ms=now_ms, storage_zone=storage_zone)


def test_headers_name_the_job_and_the_occurrence() -> None:
    """As beat does, and what this app adds; the job's own stay."""
    publication = build(
        message(name="nightly report", headers='{"trace": "on", "leased_cron": "a name of ours"}'),
        claim=UnconfirmedClaim(occurrence_id=81, epoch=9, attempt=2),
    )
    assert publication.headers == {
        "trace": "on",
        "periodic_task_name": "nightly report",
        "celery_beat_task": True,
        "leased_cron": {
            "tenant": "acme",
            "job_id": 7,
            "occurrence_id": 81,
            "due_at": "2026-06-01T12:00:00.000Z",
            "epoch": 9,
            "attempt": 2,
        },
    }


def test_arguments_and_options_are_those_of_the_row() -> None:
    """Decoded; empty text of an option is no option."""
    row = message(args='[1, "two"]', kwargs='{"deep": {"er": [null]}}', queue="slow", exchange="", priority=0)
    assert build(row, task_id="abc") == Publication(
        occurrence_id=70,
        attempt=1,
        task="reports.build",
        task_id="abc",
        args=[1, "two"],
        kwargs={"deep": {"er": [None]}},
        headers=build(row).headers,
        queue="slow",
        exchange=None,
        routing_key=None,
        priority=0,
        expires_s=None,
    )


def test_columns_left_empty_are_no_arguments() -> None:
    """django-celery-beat fills them in, raw SQL may not."""
    publication = build(message(args="", kwargs="", headers=""))
    assert (publication.args, publication.kwargs) == ([], {})


@pytest.mark.parametrize(
    ("columns", "expires_s"),
    [
        ({}, None),
        ({"expire_seconds": 90}, 90),
        ({"expire_seconds": 0}, 0),
        ({"expires": "2026-06-01 12:01:00"}, 60),
        ({"expires": "2026-06-01 12:01:00", "expire_seconds": 90}, 60),
        ({"expires": "2026-06-01 12:02:00.500000", "expire_seconds": 90}, 90),
        ({"expires": "2026-06-01 11:59:00"}, 0),
        ({"expires": "9999-12-31 23:59:59"}, None),
        ({"expires": "9999-12-31 23:59:59", "expire_seconds": 90}, 90),
    ],
)
def test_message_expires_at_the_earlier_of_the_two_columns(columns: dict[str, Any], expires_s: float | None) -> None:
    """Counted from now; one that has passed leaves no time at all, one that no worker lives to see is none."""
    assert build(message(**columns)).expires_s == expires_s


def test_expiry_is_read_in_the_zone_of_the_database() -> None:
    """With ``USE_TZ`` off the rows hold local time."""
    row = message(expires="2026-06-01 20:01:00")
    assert build(row, storage_zone=ZoneInfo("Asia/Shanghai")).expires_s == 60


MALFORMED = [
    ("args", '{"a": 1}', "JSON array"),
    ("args", "[1,", "not JSON"),
    ("args", "null", "JSON array"),
    ("args", '"text"', "JSON array"),
    ("args", "(1, 2)", "not JSON"),
    ("args", "[" * 100_000, "nested too deeply"),
    ("args", f"[{'9' * 5000}]", "not JSON"),
    ("kwargs", "[]", "JSON object"),
    ("kwargs", "{'a': 1}", "not JSON"),
    ("headers", "[]", "JSON object"),
    ("headers", "1", "JSON object"),
    ("headers", '{"id": "mine", "task": "other"}', "may not set id, task"),
]


@pytest.mark.parametrize(("column", "text", "reason"), MALFORMED)
def test_column_that_cannot_be_sent_is_named_with_the_reason(column: str, text: str, reason: str) -> None:
    """Found when planning as well as when publishing."""
    texts = {"args": "[]", "kwargs": "{}", "headers": "{}"} | {column: text}
    for find in (lambda: check_message(**texts), lambda: build(message(**texts))):
        with pytest.raises(MalformedJobError, match=reason) as caught:
            find()
        assert caught.value.field == column


def test_expiry_that_is_no_date_is_named() -> None:
    """A zero date of MySQL."""
    with pytest.raises(MalformedJobError, match="expires '0000-00-00 00:00:00'"):
        build(message(expires="0000-00-00 00:00:00"))


@pytest.mark.parametrize("column", ["args", "kwargs", "headers"])
def test_reason_does_not_repeat_what_the_row_holds(column: str) -> None:
    """It goes into log lines, and arguments may be secret."""
    texts = {"args": "[]", "kwargs": "{}", "headers": "{}"} | {column: '"hunter2"'}
    with pytest.raises(MalformedJobError) as caught:
        check_message(**texts)
    assert "hunter2" not in str(caught.value)


def test_headers_of_one_publication_are_not_those_of_the_next() -> None:
    """The publisher may change what it was given."""
    row = message(headers=json.dumps({"trace": {"id": 1}}))
    build(row).headers["trace"]["id"] = 2
    assert build(row).headers["trace"] == {"id": 1}
