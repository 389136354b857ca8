"""Events as log lines: a short constant sentence, with the event's name in ``extra``."""

from __future__ import annotations

import logging
from dataclasses import fields
from typing import Final

from django_leased_cron.core import events

logger = logging.getLogger("django_leased_cron")

NAMES: Final[dict[type[events.Event], tuple[str, int, str]]] = {
    events.LeaseAcquired: (
        "lease.acquired",
        logging.INFO,
        "Tenant %(tenant_key)r: lease acquired (%(reason)s) from %(previous_holder_id)r, epoch %(epoch)d",
    ),
    events.LeaseGiven: (
        "lease.given",
        logging.INFO,
        "Tenant %(tenant_key)r: lease given to %(successor_id)s, epoch %(epoch)d",
    ),
    events.LeaseTakenUp: ("lease.taken_up", logging.INFO, "Tenant %(tenant_key)r: lease taken up, epoch %(epoch)d"),
    events.TermEnded: ("term.ended", logging.INFO, "Tenant %(tenant_key)r: term %(epoch)d ended (%(reason)s)"),
    events.HandOverRequested: (
        "lease.hand_over_requested",
        logging.INFO,
        "Tenant %(tenant_key)r: asked to hand over, ending term %(epoch)d",
    ),
    events.BatchDispatched: (
        "batch.dispatched",
        logging.DEBUG,
        "Tenant %(tenant_key)r: sent %(sent)d, failed %(failed)d, unsent %(unsent)d, %(worst_lateness_ms)d ms late",
    ),
    events.JobFlagged: (
        "job.flagged",
        logging.WARNING,
        "Tenant %(tenant_key)r: job %(job_id)d is not scheduled: %(error)s",
    ),
    events.EditsFoundSlowly: (
        "edits.found_slowly",
        logging.WARNING,
        "Tenant %(tenant_key)r: edits are found every %(pause_s).1f s only: many jobs, and no edit triggers",
    ),
    events.CodeScheduleSynchronised: (
        "code_schedule.synchronised",
        logging.INFO,
        "Tenant %(tenant_key)r: beat_schedule, %(mode)s: created %(created)s, updated %(updated)s, off %(disabled)s",
    ),
    events.CodeEntryRefused: (
        "code_schedule.refused",
        logging.WARNING,
        "Tenant %(tenant_key)r: entry %(entry)r of beat_schedule is no job: %(reason)s",
    ),
    events.CodeJobsOrphaned: (
        "code_schedule.orphaned",
        logging.WARNING,
        "Tenant %(tenant_key)r: jobs that beat_schedule no longer has still run: %(jobs)s",
    ),
    events.DatabaseOutage: ("database.outage", logging.ERROR, "Failed %(doing)s: %(detail)s; trying again"),
    events.DatabaseRecovered: ("database.recovered", logging.INFO, "Database %(alias)r: %(doing)s works again"),
    events.BrokerOutage: (
        "broker.outage",
        logging.ERROR,
        "Tenant %(tenant_key)r: the broker does not take messages (%(detail)s); %(in_hand)d wait, trying again",
    ),
    events.BrokerRecovered: (
        "broker.recovered",
        logging.INFO,
        "Tenant %(tenant_key)r: the broker takes messages again",
    ),
    events.RescueWithheld: (
        "rescue.withheld",
        logging.WARNING,
        "Tenant %(tenant_key)r: work is owed, but the broker does not answer here either; not taking over",
    ),
    events.ClockSuspended: (
        "clock.suspended",
        logging.WARNING,
        "Tenant %(tenant_key)r: the database's clock moved; no claims until its readings agree",
    ),
    events.LoopFailed: ("loop.failed", logging.ERROR, "Error while %(doing)s; going on: %(error)r"),
    events.SupervisorReady: ("supervisor.ready", logging.INFO, "Ready as %(holder_id)s; tenants: %(tenants)d"),
    events.SupervisorStopping: ("supervisor.stopping", logging.INFO, "Stopping %(holder_id)s: handing over"),
    events.SupervisorStopped: (
        "supervisor.stopped",
        logging.INFO,
        "Stopped %(holder_id)s: %(released)d leases released, %(unreleased)d left to expire",
    ),
}
"""Event type to name, level and sentence."""


def log_event(event: events.Event) -> None:
    """Write the log line of an event."""
    name, level, sentence = NAMES[type(event)]
    facts = {field.name: getattr(event, field.name) for field in fields(event)}
    # Only an error of ours deserves a traceback; what a server did is in its message.
    error = event.error if isinstance(event, events.LoopFailed) else None
    logger.log(level, sentence, facts, exc_info=error, extra={"event": name})


def ensure_handler() -> None:
    """Write log lines to stderr where the project's ``LOGGING`` says nothing of them: a silent scheduler looks hung."""
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
