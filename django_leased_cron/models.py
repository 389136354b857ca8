"""The tables. Machine state is integers that only the adapters write; people edit the two policies.

Foreign keys to django-celery-beat's tables carry no database constraint and do nothing on delete: a raw ``DELETE``
of a job must go on working, and every path of deletion must look the same to the holder, which sweeps what is left.

Instants are milliseconds since the Unix epoch by the database's clock (``*_at_ms``): a timestamp column picks up a
time zone on its way through a driver, an integer cannot.
"""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class SchedulerLease(models.Model):
    """Which process schedules a tenant. Written by the lease store alone: no form and no ``save()`` (see the docs)."""

    tenant_key = models.CharField(_("tenant"), max_length=191, unique=True)
    holder_id = models.CharField(_("holder"), max_length=150, default="", blank=True)
    epoch = models.BigIntegerField(_("epoch"), default=0)
    acquired_at_ms = models.BigIntegerField(_("acquired at (ms)"), default=0)
    expires_at_ms = models.BigIntegerField(_("expires at (ms)"), default=0)
    progressed_at_ms = models.BigIntegerField(_("progressed at (ms)"), default=0)
    owed_since_ms = models.BigIntegerField(_("owed since (ms)"), null=True, blank=True)
    hand_over_requested_at_ms = models.BigIntegerField(_("hand-over requested at (ms)"), null=True, blank=True)

    class Meta:
        verbose_name = _("scheduler lease")
        verbose_name_plural = _("scheduler leases")
        permissions = [("hand_over_schedulerlease", "Can ask the holder of a scheduler lease to hand over")]
        indexes = [models.Index(fields=["holder_id"], name="leased_cron_lease_holder")]

    def __str__(self) -> str:
        return self.tenant_key


class SchedulerProcess(models.Model):
    """A live supervisor process, as it last reported itself."""

    holder_id = models.CharField(_("holder"), max_length=150, unique=True)
    host = models.CharField(_("host"), max_length=255)
    pid = models.IntegerField(_("process id"))
    version = models.CharField(_("version"), max_length=50)
    started_at_ms = models.BigIntegerField(_("started at (ms)"))
    last_seen_at_ms = models.BigIntegerField(_("last seen at (ms)"))
    draining = models.BooleanField(_("draining"), default=False)
    tenants = models.JSONField(_("tenants it was started for"), default=list, help_text=_("Empty: all of them."))

    class Meta:
        verbose_name = _("scheduler process")
        verbose_name_plural = _("scheduler processes")

    def __str__(self) -> str:
        return self.holder_id


class Pause(models.Model):
    """The pause of a tenant or a job: who, why, until when."""

    paused = models.BooleanField(_("paused"), default=False)
    paused_by = models.CharField(_("paused by"), max_length=150, default="", blank=True)
    paused_reason = models.CharField(_("reason"), max_length=255, default="", blank=True)
    paused_until_ms = models.BigIntegerField(
        _("paused until (ms)"), null=True, blank=True, help_text=_("Empty: until resumed.")
    )

    class Meta:
        abstract = True


class TenantPolicy(Pause):
    """What people decided about a tenant; the claim reads it."""

    tenant_key = models.CharField(_("tenant"), max_length=191, unique=True)

    class Meta:
        verbose_name = _("tenant policy")
        verbose_name_plural = _("tenant policies")

    def __str__(self) -> str:
        return self.tenant_key


class CatchUpChoice(models.TextChoices):
    SKIP = "skip", _("skip missed occurrences")
    ONCE = "once", _("run the latest missed occurrence")
    ALL = "all", _("run every missed occurrence")


class OverlapChoice(models.TextChoices):
    ALLOW = "allow", _("run beside an unfinished predecessor")
    SKIP = "skip", _("skip while a predecessor is unfinished")


class DeliveryChoice(models.TextChoices):
    AT_LEAST_ONCE = "at_least_once", _("at least once")
    AT_MOST_ONCE = "at_most_once", _("at most once")


class JobPolicy(Pause):
    """What people decided about a job beyond its schedule. No row: the settings' defaults."""

    job = models.OneToOneField(
        "django_celery_beat.PeriodicTask",
        on_delete=models.CASCADE,
        db_constraint=False,
        primary_key=True,
        related_name="leased_cron_policy",
        verbose_name=_("job"),
    )
    catch_up = models.CharField(
        _("catch-up"), max_length=10, choices=CatchUpChoice, default="", blank=True, help_text=_("Empty: CATCH_UP.")
    )
    catch_up_window_s = models.BigIntegerField(
        _("catch-up window (s)"), null=True, blank=True, help_text=_("Empty: CATCH_UP_WINDOW.")
    )
    overlap = models.CharField(_("overlap"), max_length=10, choices=OverlapChoice, default=OverlapChoice.ALLOW)
    longest_run_s = models.PositiveIntegerField(
        _("longest run (s)"),
        default=3600,
        help_text=_("After it a run that never reported its end counts as lost."),
    )
    jitter_s = models.PositiveIntegerField(
        _("jitter (s)"), default=0, help_text=_("Spread firings over this many seconds after their due time.")
    )
    delivery = models.CharField(
        _("delivery"), max_length=20, choices=DeliveryChoice, default="", blank=True, help_text=_("Empty: DELIVERY.")
    )

    class Meta:
        verbose_name = _("job policy")
        verbose_name_plural = _("job policies")
        # By the database, because rows come by raw SQL and fixtures too, and a claim must be able to rely on them.
        constraints = [
            models.CheckConstraint(
                condition=models.Q(catch_up__in=["", *CatchUpChoice.values]), name="leased_cron_policy_catch_up"
            ),
            models.CheckConstraint(
                condition=models.Q(overlap__in=OverlapChoice.values), name="leased_cron_policy_overlap"
            ),
            models.CheckConstraint(
                condition=models.Q(delivery__in=["", *DeliveryChoice.values]), name="leased_cron_policy_delivery"
            ),
        ]

    def __str__(self) -> str:
        return f"job {self.pk}"


class JobState(models.Model):
    """The plan of one job. Machine state: written only in transactions that hold the lease (I2, I3).

    ``next_due_at_ms`` NULL = nothing planned: finished, disabled, or malformed (then ``error`` says why).
    ``inputs`` is what it was planned from, see ``core/planning_inputs.py``.
    """

    job = models.OneToOneField(
        "django_celery_beat.PeriodicTask",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        primary_key=True,
        related_name="leased_cron_state",
        verbose_name=_("job"),
    )
    next_due_at_ms = models.BigIntegerField(_("next due at (ms)"), null=True)
    fire_at_ms = models.BigIntegerField(_("fires at (ms)"), null=True, help_text=_("Next due plus jitter."))
    last_due_at_ms = models.BigIntegerField(_("last due at (ms)"), null=True)
    known_run_at_ms = models.BigIntegerField(
        _("known run at (ms)"),
        null=True,
        help_text=_("The job's last_run_at as last written or seen here; a newer one is another scheduler's."),
    )
    inputs = models.TextField(_("planning inputs"), default="")
    inputs_format = models.SmallIntegerField(_("format of the planning inputs"), default=0)
    error = models.TextField(_("error"), default="")
    error_since_ms = models.BigIntegerField(_("error since (ms)"), null=True)
    message_digest = models.CharField(
        _("digest of the message"),
        max_length=32,
        default="",
        help_text=_("Of args, kwargs and headers when the error was found: another one is looked at anew."),
    )

    class Meta:
        verbose_name = _("job state")
        verbose_name_plural = _("job states")
        # In this order: with the due time alone, ties of a herd are sorted at every claim (58 ms instead of 0.6 ms
        # at 200,000 jobs due together).
        indexes = [models.Index(fields=["fire_at_ms", "job"], name="leased_cron_state_fire_at")]

    def __str__(self) -> str:
        return f"job {self.pk}"


class JobEdit(models.Model):
    """A row that was edited, noted by a trigger in the editor's transaction and taken by the holder's planner.

    ``kind``: ``job``, or the kind of the schedule that jobs may share, or ``all``.
    """

    kind = models.CharField(_("kind"), max_length=10)
    row_id = models.BigIntegerField(_("row"))
    schema_name = models.CharField(_("schema"), max_length=63, default="", db_default="", blank=True)
    """Whose job it is, on PostgreSQL; the database's default, because triggers elsewhere do not name it."""

    class Meta:
        verbose_name = _("job edit")
        verbose_name_plural = _("job edits")

    def __str__(self) -> str:
        return f"{self.kind} {self.row_id}"


class CodeJob(models.Model):
    """Which entry of the code's schedule a job belongs to. Machine state, written by the synchronisation alone."""

    job = models.OneToOneField(
        "django_celery_beat.PeriodicTask",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        primary_key=True,
        related_name="leased_cron_code",
        verbose_name=_("job"),
    )
    entry = models.CharField(_("entry"), max_length=200, help_text=_("Its key in beat_schedule."))
    in_code = models.BooleanField(_("in the code"), default=True)

    class Meta:
        verbose_name = _("job of the code")
        verbose_name_plural = _("jobs of the code")

    def __str__(self) -> str:
        return self.entry


class OccurrenceStateChoice(models.TextChoices):
    REQUESTED = "requested", _("requested")
    CLAIMED = "claimed", _("claimed")
    SENT = "sent", _("sent")
    RUNNING = "running", _("running")
    SUCCEEDED = "succeeded", _("succeeded")
    FAILED = "failed", _("failed")
    SKIPPED = "skipped", _("skipped")
    UNCERTAIN = "uncertain", _("uncertain")


class Occurrence(models.Model):
    """One scheduled firing of one job: outbox and history in one.

    A stretch of skipped slots is one row: ``due_at_ms`` is the last of them, ``first_due_at_ms`` the first.
    ``failed`` without ``started_at_ms`` = never published.
    """

    job = models.ForeignKey(
        "django_celery_beat.PeriodicTask",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,  # the unique constraint begins with it
        related_name="leased_cron_occurrences",
        verbose_name=_("job"),
    )
    job_name = models.CharField(_("job name"), max_length=200, default="")
    due_at_ms = models.BigIntegerField(_("due at (ms)"))
    first_due_at_ms = models.BigIntegerField(_("first due at (ms)"), null=True)
    slots = models.BigIntegerField(_("slots"), default=1)
    state = models.CharField(_("state"), max_length=10, choices=OccurrenceStateChoice)
    reason = models.TextField(_("reason or error"), default="")
    epoch = models.BigIntegerField(_("epoch"), default=0)
    attempt = models.IntegerField(_("attempt"), default=0)
    task_id = models.CharField(_("task id"), max_length=36, default="")
    delivery = models.CharField(_("delivery"), max_length=20, choices=DeliveryChoice, default="")
    claimed_at_ms = models.BigIntegerField(_("claimed at (ms)"), null=True)
    sent_at_ms = models.BigIntegerField(_("sent at (ms)"), null=True)
    run_attempt = models.IntegerField(_("attempt that runs"), null=True)
    started_at_ms = models.BigIntegerField(_("started at (ms)"), null=True)
    finished_at_ms = models.BigIntegerField(_("finished at (ms)"), null=True)

    class Meta:
        verbose_name = _("occurrence")
        verbose_name_plural = _("occurrences")
        constraints = [models.UniqueConstraint(fields=["job", "due_at_ms"], name="leased_cron_occurrence_once")]
        indexes = [models.Index(fields=["state", "due_at_ms"], name="leased_cron_occurrence_state")]

    def __str__(self) -> str:
        due_at = timezone.localtime(datetime.fromtimestamp(self.due_at_ms // 1000, UTC))
        return f"{self.job_name or self.job_id} at {due_at:%Y-%m-%d %H:%M:%S %Z}"
