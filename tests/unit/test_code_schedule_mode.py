"""Who has the last word about jobs that the code holds."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from celery import Celery

from django_leased_cron.code_schedule.mode import SyncMode, read_mode
from django_leased_cron.conf import build_settings
from django_leased_cron.exceptions import ConfigurationError
from django_leased_cron.wiring import SupervisorBuilder


def build_app(**conf: str) -> Celery:
    app = Celery("project", set_as_current=False, broker="memory://")
    app.conf.update(conf)
    return app


def test_people_win_unless_it_is_said_otherwise() -> None:
    """Nothing needs to be set."""
    assert read_mode(build_app()) is SyncMode.CREATE_ONLY


@pytest.mark.parametrize("mode", list(SyncMode))
def test_mode_stands_beside_beat_schedule(mode: SyncMode, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the namespace of the project's Celery settings."""
    settings = ModuleType("settings_of_a_project")
    monkeypatch.setattr(settings, "CELERY_LEASED_CRON_SYNC", mode.value, raising=False)
    monkeypatch.setitem(sys.modules, settings.__name__, settings)
    app = Celery("project", set_as_current=False)
    app.config_from_object(settings.__name__, namespace="CELERY")
    assert read_mode(app) is mode


@pytest.mark.parametrize(("written", "hint"), [("miror", "Did you mean 'mirror'?"), ("x", "'create_only', 'update'")])
def test_unknown_mode_keeps_the_scheduler_from_starting(written: str, hint: str) -> None:
    """A word misspelt must not let jobs be overwritten, or not."""
    app = build_app(leased_cron_sync=written)
    with pytest.raises(ConfigurationError) as raised:
        SupervisorBuilder(build_settings({}), [], only=(), emit=lambda _: None, app=app)
    [problem] = raised.value.problems
    assert f"leased_cron_sync is {written!r}" in problem
    assert hint in problem
