"""The drop-in: ``celery -A proj beat -S django_leased_cron.beat:LeasedScheduler``, on as many machines as you like.

The same lease and the same engine as ``manage.py run_leased_scheduler``, for people who only want to change ``-S``.
Beat's own loop has nothing to schedule: it ticks while the threads of the supervisor work. It is stopped as any beat
is, and then hands over.
"""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue
from typing import Any, Final

from celery import Celery
from celery.beat import Scheduler

from django_leased_cron.conf import get_settings
from django_leased_cron.exceptions import ConfigurationError
from django_leased_cron.instrumentation import log_event
from django_leased_cron.management.exit_codes import MISCONFIGURED
from django_leased_cron.self_check import find_configuration_problems, find_warnings
from django_leased_cron.supervision.supervisor import Supervisor
from django_leased_cron.tenants import get_tenant_source
from django_leased_cron.wiring import SupervisorBuilder

logger = logging.getLogger("django_leased_cron")

_BEYOND_PUBLISHING_S: Final = 10.0
"""What a hand-over may take beside the publications in flight: a few statements with deadlines of their own."""


class LeasedScheduler(Scheduler):
    """Celery's scheduler class over a :class:`~django_leased_cron.supervision.supervisor.Supervisor`.

    An instance that is ``lazy`` (the banner's) builds nothing. ``schedule_filename`` is ignored.
    """

    max_interval = 5
    """Seconds between two looks at whether the supervisor still runs; no job waits for them."""

    _supervision: BackgroundSupervision | None = None

    def setup_schedule(self) -> None:
        """Build the supervisor, in the process that will run it: its name is made of the process id.

        Raises:
            SystemExit: 2, after every problem of the configuration was logged.
        """
        try:
            supervisor = _build_supervisor(self.app)
        except ConfigurationError as exc:
            for problem in exc.problems:
                logger.critical("%s", problem)
            # Here, where the service is not in its loop yet: it takes an exit from there for the end of a day's work.
            raise SystemExit(MISCONFIGURED) from exc
        patience_s = get_settings().publish_timeout_s + _BEYOND_PUBLISHING_S
        self._supervision = BackgroundSupervision(supervisor, patience_s=patience_s)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Start the supervisor at the first tick, when Celery has forked and detached all it wants to."""
        if self._supervision is None:
            message = "a lazy scheduler does not tick"
            raise RuntimeError(message)
        self._supervision.ensure_running()
        return self.max_interval

    def close(self) -> None:
        """Hand over. Celery calls this in its handler of SIGTERM and SIGINT, and again when its loop ends."""
        if self._supervision is not None:
            self._supervision.stop()
        super().close()


class BackgroundSupervision:
    """A supervisor in a thread, stopped from signal handlers that may interrupt each other."""

    def __init__(self, supervisor: Supervisor, *, patience_s: float) -> None:
        self._supervisor = supervisor
        self._patience_s = patience_s
        # Not a threading.Event: a second signal's handler would wait for a lock that the first one's holds. Putting
        # into this queue may be interrupted by itself.
        self._stop_requests: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    def ensure_running(self) -> None:
        """Start the thread, or raise what ended it."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="leased-cron-supervisor", daemon=True)
            self._thread.start()
        elif not self._thread.is_alive():
            message = "the supervisor has ended"
            raise RuntimeError(message) from self._failure

    def stop(self) -> None:
        """Ask for the orderly end and wait for it; bounded, for the signal may have met a thread that logs.

        A handler that waits in a thread that holds the log's lock would otherwise wait for a supervisor that wants to
        log. Celery asks again when the signal has unwound that thread.
        """
        self._stop_requests.put(None)
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(self._patience_s)

    def _run(self) -> None:
        try:
            self._supervisor.run(self._stop_requests.get)
        except Exception as exc:  # noqa: BLE001 - raised by the next tick, in the thread that can end the process
            self._failure = exc


def _build_supervisor(app: Celery) -> Supervisor:
    problems = find_configuration_problems()
    if problems:
        raise ConfigurationError(problems)
    tenants = get_tenant_source().list_tenants()
    for warning in [*find_warnings(), *(() if tenants else ("No tenants are listed: standing by.",))]:
        logger.warning("%s", warning)
    try:
        return SupervisorBuilder(
            get_settings(),
            tenants,
            only=(),
            emit=log_event,
            list_tenants=get_tenant_source().list_tenants,
            app=app,
        ).build()
    except ImportError as exc:
        raise ConfigurationError([f"A task module or the broker's library cannot be imported: {exc}"]) from exc
