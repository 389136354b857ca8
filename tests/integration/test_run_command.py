"""``run_leased_scheduler`` and its ``--check``, where Celery's configuration cannot work."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from celery import Celery
from django.core.management import CommandError, call_command

from django_leased_cron import self_check, wiring
from django_leased_cron.management.commands import run_leased_scheduler


@pytest.fixture
def app(alias: str, monkeypatch: pytest.MonkeyPatch) -> Celery:
    app = Celery("project", set_as_current=False, broker="memory://")
    for module in (self_check, wiring):
        monkeypatch.setattr(module, "current_app", app)
    # What a process does to itself before it starts.
    monkeypatch.setattr(run_leased_scheduler, "StopSignals", Mock)
    monkeypatch.setattr(run_leased_scheduler, "ensure_handler", Mock)
    return app


def fail(*arguments: str) -> tuple[int, str]:
    """Run the command, which is to fail, and return its exit code and what it said."""
    with pytest.raises(CommandError) as failure:
        call_command("run_leased_scheduler", *arguments)
    return failure.value.returncode, str(failure.value)


@pytest.mark.parametrize(("arguments", "code"), [((), 2), (("--check",), 1)])
def test_unknown_broker_is_one_line(app: Celery, arguments: tuple[str, ...], code: int) -> None:
    """With and without ``--check``."""
    app.conf.update(broker_url="foo://bar")
    returncode, said = fail(*arguments)
    assert returncode == code
    assert "broker_url names no broker that Celery knows (No such transport: foo). Write" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(("arguments", "code"), [((), 2), (("--check",), 1)])
@pytest.mark.parametrize("written", [5, None, ["an entry"]])
def test_beat_schedule_that_is_no_dict_is_a_problem(
    app: Celery, written: object, arguments: tuple[str, ...], code: int
) -> None:
    """Said at the start, as a mode is that does not exist, and not by each term."""
    app.conf.update(beat_schedule=written)
    returncode, said = fail(*arguments)
    assert returncode == code
    problem = f"Celery's configuration: beat_schedule is of type {type(written).__name__!r}. Write a dict of entries."
    assert problem in said.splitlines()
