"""The drop-in for ``celery beat``, without a supervisor behind it; with one, see the acceptance tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from celery import Celery

from django_leased_cron import beat
from django_leased_cron.beat import BackgroundSupervision, LeasedScheduler
from django_leased_cron.wiring import SupervisorBuilder

ENOUGH_S = 10.0


class StandIn:
    """A supervisor that only waits to be stopped, and notes what happens to it."""

    def __init__(self, *, error: Exception | None = None) -> None:
        self.happened: list[str] = []
        self._error = error

    def run(self, wait_for_stop: Callable[[], None]) -> None:
        self.happened.append("started")
        if self._error is not None:
            raise self._error
        wait_for_stop()
        self.happened.append("handed over")

    def supervise(self) -> BackgroundSupervision:
        return BackgroundSupervision(cast(Any, self), patience_s=ENOUGH_S)


@pytest.fixture
def app() -> Celery:
    return Celery("project", set_as_current=False, broker="memory://")


def test_supervisor_is_started_by_the_first_tick_and_hands_over_before_close_returns(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever Celery forks or detaches before that forks no thread; closing twice, as Celery does, is once enough."""
    supervisor = StandIn()
    monkeypatch.setattr(beat, "_build_supervisor", lambda _: supervisor)
    scheduler = LeasedScheduler(app)
    assert supervisor.happened == []
    assert [scheduler.tick() for _ in range(3)] == [5, 5, 5]
    scheduler.close()
    assert supervisor.happened == ["started", "handed over"]
    scheduler.close()
    assert supervisor.happened == ["started", "handed over"]


def test_scheduler_that_never_ticked_closes(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal may come first."""
    supervisor = StandIn()
    monkeypatch.setattr(beat, "_build_supervisor", lambda _: supervisor)
    LeasedScheduler(app).close()
    assert supervisor.happened == []


def test_interval_of_celery_is_kept(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that runs beat in a thread asks for a second, to be able to stop it soon."""
    monkeypatch.setattr(beat, "_build_supervisor", lambda _: StandIn())
    scheduler = LeasedScheduler(app, max_interval=1)
    assert scheduler.tick() == 1
    scheduler.close()


def test_lazy_scheduler_builds_nothing(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Celery makes one for its banner."""
    monkeypatch.setattr(beat, "_build_supervisor", lambda _: pytest.fail("built"))
    scheduler = LeasedScheduler(app, lazy=True)
    assert (scheduler.info, scheduler.max_interval) == ("", 5)
    with pytest.raises(RuntimeError, match="lazy"):
        scheduler.tick()
    scheduler.close()


def test_supervisor_that_fails_ends_the_process(app: Celery) -> None:
    """The tick after it raises, in the thread whose end is the end of the process."""
    supervision = StandIn(error=ZeroDivisionError()).supervise()
    supervision.ensure_running()
    supervision.stop()  # and wait for it
    with pytest.raises(RuntimeError, match="ended") as raised:
        supervision.ensure_running()
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_library_that_is_missing_is_a_problem_of_the_configuration(
    app: Celery, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It exits with 2, in words and without a traceback."""

    def build(_: SupervisorBuilder) -> None:
        raise ImportError("No module named 'redis'")

    monkeypatch.setattr(SupervisorBuilder, "build", build)
    monkeypatch.setattr(beat, "find_configuration_problems", list)
    with pytest.raises(SystemExit) as raised:
        LeasedScheduler(app)
    assert raised.value.code == 2
    [record] = [record for record in caplog.records if record.levelname == "CRITICAL"]
    assert "No module named 'redis'" in record.getMessage()
    assert record.exc_info is None
