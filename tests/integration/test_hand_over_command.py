"""``leased_scheduler_hand_over``, on every supported database."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from pytest_django import Settings

from django_leased_cron.hand_over import open_leases
from django_leased_cron.models import SchedulerLease

TTL_S = 0.6
A_MINUTE_MS = 60_000
OLD, NEW = "web-1-4711-9f3a2c1d", "web-2-815-0a1b2c3d"


@pytest.fixture
def alias(database_alias: str, settings: Settings) -> str:
    """Return the database of the tenant ``default``, on each vendor in turn; the command gives up soon."""
    tenants = {"OPTIONS": {"alias": database_alias}}
    settings.LEASED_CRON = {"TENANTS": tenants, "LEASE_TTL": TTL_S, "PUBLISH_TIMEOUT": TTL_S}
    return database_alias


def run(*arguments: str) -> str:
    output = io.StringIO()
    call_command("leased_scheduler_hand_over", *arguments, stdout=output)
    return output.getvalue()


def fail(*arguments: str) -> tuple[int, str, str]:
    """Return exit code, output and complaint of a run that does not exit 0."""
    output = io.StringIO()
    with pytest.raises(CommandError) as failure:
        call_command("leased_scheduler_hand_over", *arguments, stdout=output)
    return failure.value.returncode, output.getvalue(), str(failure.value)


def hold(alias: str, *, expires_in_ms: int = A_MINUTE_MS) -> None:
    with open_leases(alias) as leases:
        now_ms = leases.read(["default"]).now_ms
    rows = SchedulerLease.objects.using(alias)
    rows.update(holder_id=OLD, epoch=7, expires_at_ms=now_ms + expires_in_ms)


@contextmanager
def when_asked(alias: str, act: Callable[[], object]) -> Iterator[None]:
    """Do something in another thread as soon as the holder has been asked."""
    gave_up = threading.Event()

    def wait_and_act() -> None:
        asked = SchedulerLease.objects.using(alias).filter(hand_over_requested_at_ms__isnull=False)
        while not asked.exists() and not gave_up.wait(0.01):
            pass
        act()
        connections[alias].close()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    try:
        yield
    finally:
        gave_up.set()
        thread.join()


def test_old_and_new_holder_are_printed(alias: str) -> None:
    """As soon as another process has the lease."""
    hold(alias)
    rows = SchedulerLease.objects.using(alias)
    with when_asked(alias, lambda: rows.update(holder_id=NEW, epoch=8)):
        header, line = run("--tenant", "default").splitlines()
    assert header.split() == ["TENANT", "OLD", "HOLDER", "NEW", "HOLDER"]
    assert line.split() == ["default", OLD, NEW]


def test_lease_that_is_only_free_has_no_new_holder_yet(alias: str) -> None:
    """Released, and nobody bids: told after a TTL."""
    hold(alias)
    rows = SchedulerLease.objects.using(alias)
    with when_asked(alias, lambda: rows.update(holder_id="", expires_at_ms=0)):
        code, output, complaint = fail()
    assert code == 1
    assert output.splitlines()[1].split() == ["default", OLD, "nobody"]
    assert f"{OLD} was asked, and nobody has taken the lease" in complaint


def test_holder_that_does_not_answer_is_named(alias: str) -> None:
    """It still has the lease after a TTL."""
    hold(alias)
    code, _, complaint = fail()
    assert code == 1
    assert OLD in complaint


@pytest.mark.parametrize("expires_in_ms", [None, 0], ids=["free", "expired"])
def test_nobody_to_ask(alias: str, expires_in_ms: int | None) -> None:
    """Exit code 1, at once and without a table."""
    if expires_in_ms is not None:
        hold(alias, expires_in_ms=expires_in_ms)
    code, output, complaint = fail()
    assert (code, output) == (1, "")
    assert complaint == "Tenant 'default': nobody holds its lease."


@pytest.mark.parametrize("database_alias", ["sqlite"], indirect=True)
def test_unknown_tenant_is_a_mistake(alias: str) -> None:
    """Nobody is asked."""
    hold(alias)
    code, _, complaint = fail("--tenant", "defualt")
    assert code == 2
    assert "'default'" in complaint
    assert SchedulerLease.objects.using(alias).get().hand_over_requested_at_ms is None


def test_database_that_does_not_answer(alias: str) -> None:
    """Exit code 1; the message says what to do."""
    with connections[alias].cursor() as cursor:
        cursor.execute("ALTER TABLE leased_cron_schedulerlease RENAME TO elsewhere")
    try:
        code, _, complaint = fail()
    finally:
        with connections[alias].cursor() as cursor:
            cursor.execute("ALTER TABLE elsewhere RENAME TO leased_cron_schedulerlease")
    assert code == 1
    assert "migrate" in complaint
