import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        # The last one that changed which columns there are, so `migrate leased_cron` alone gives what is read.
        ("django_celery_beat", "0014_remove_clockedschedule_enabled"),
    ]

    operations = [
        migrations.CreateModel(
            name="JobPolicy",
            fields=[
                ("paused", models.BooleanField(default=False, verbose_name="paused")),
                ("paused_by", models.CharField(blank=True, default="", max_length=150, verbose_name="paused by")),
                ("paused_reason", models.CharField(blank=True, default="", max_length=255, verbose_name="reason")),
                (
                    "paused_until_ms",
                    models.BigIntegerField(
                        blank=True, help_text="Empty: until resumed.", null=True, verbose_name="paused until (ms)"
                    ),
                ),
                (
                    "job",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="leased_cron_policy",
                        serialize=False,
                        to="django_celery_beat.periodictask",
                        verbose_name="job",
                    ),
                ),
                (
                    "catch_up",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("skip", "skip missed occurrences"),
                            ("once", "run the latest missed occurrence"),
                            ("all", "run every missed occurrence"),
                        ],
                        default="",
                        help_text="Empty: CATCH_UP.",
                        max_length=10,
                        verbose_name="catch-up",
                    ),
                ),
                (
                    "catch_up_window_s",
                    models.BigIntegerField(
                        blank=True, help_text="Empty: CATCH_UP_WINDOW.", null=True, verbose_name="catch-up window (s)"
                    ),
                ),
                (
                    "overlap",
                    models.CharField(
                        choices=[
                            ("allow", "run beside an unfinished predecessor"),
                            ("skip", "skip while a predecessor is unfinished"),
                        ],
                        default="allow",
                        max_length=10,
                        verbose_name="overlap",
                    ),
                ),
                (
                    "longest_run_s",
                    models.PositiveIntegerField(
                        default=3600,
                        help_text="After it a run that never reported its end counts as lost.",
                        verbose_name="longest run (s)",
                    ),
                ),
                (
                    "jitter_s",
                    models.PositiveIntegerField(
                        default=0,
                        help_text="Spread firings over this many seconds after their due time.",
                        verbose_name="jitter (s)",
                    ),
                ),
                (
                    "delivery",
                    models.CharField(
                        blank=True,
                        choices=[("at_least_once", "at least once"), ("at_most_once", "at most once")],
                        default="",
                        help_text="Empty: DELIVERY.",
                        max_length=20,
                        verbose_name="delivery",
                    ),
                ),
            ],
            options={
                "verbose_name": "job policy",
                "verbose_name_plural": "job policies",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("catch_up__in", ["", "skip", "once", "all"])),
                        name="leased_cron_policy_catch_up",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("overlap__in", ["allow", "skip"])), name="leased_cron_policy_overlap"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("delivery__in", ["", "at_least_once", "at_most_once"])),
                        name="leased_cron_policy_delivery",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="SchedulerProcess",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("holder_id", models.CharField(max_length=150, unique=True, verbose_name="holder")),
                ("host", models.CharField(max_length=255, verbose_name="host")),
                ("pid", models.IntegerField(verbose_name="process id")),
                ("version", models.CharField(max_length=50, verbose_name="version")),
                ("started_at_ms", models.BigIntegerField(verbose_name="started at (ms)")),
                ("last_seen_at_ms", models.BigIntegerField(verbose_name="last seen at (ms)")),
                ("draining", models.BooleanField(default=False, verbose_name="draining")),
                (
                    "tenants",
                    models.JSONField(
                        default=list, help_text="Empty: all of them.", verbose_name="tenants it was started for"
                    ),
                ),
            ],
            options={
                "verbose_name": "scheduler process",
                "verbose_name_plural": "scheduler processes",
            },
        ),
        migrations.CreateModel(
            name="TenantPolicy",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("paused", models.BooleanField(default=False, verbose_name="paused")),
                ("paused_by", models.CharField(blank=True, default="", max_length=150, verbose_name="paused by")),
                ("paused_reason", models.CharField(blank=True, default="", max_length=255, verbose_name="reason")),
                (
                    "paused_until_ms",
                    models.BigIntegerField(
                        blank=True, help_text="Empty: until resumed.", null=True, verbose_name="paused until (ms)"
                    ),
                ),
                ("tenant_key", models.CharField(max_length=191, unique=True, verbose_name="tenant")),
            ],
            options={
                "verbose_name": "tenant policy",
                "verbose_name_plural": "tenant policies",
            },
        ),
        migrations.CreateModel(
            name="JobState",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        primary_key=True,
                        related_name="leased_cron_state",
                        serialize=False,
                        to="django_celery_beat.periodictask",
                        verbose_name="job",
                    ),
                ),
                ("next_due_at_ms", models.BigIntegerField(null=True, verbose_name="next due at (ms)")),
                (
                    "fire_at_ms",
                    models.BigIntegerField(help_text="Next due plus jitter.", null=True, verbose_name="fires at (ms)"),
                ),
                ("last_due_at_ms", models.BigIntegerField(null=True, verbose_name="last due at (ms)")),
                (
                    "known_run_at_ms",
                    models.BigIntegerField(
                        help_text="The job's last_run_at as last written or seen here; a newer one is another scheduler's.",
                        null=True,
                        verbose_name="known run at (ms)",
                    ),
                ),
                ("inputs", models.TextField(default="", verbose_name="planning inputs")),
                ("inputs_format", models.SmallIntegerField(default=0, verbose_name="format of the planning inputs")),
                ("error", models.TextField(default="", verbose_name="error")),
                ("error_since_ms", models.BigIntegerField(null=True, verbose_name="error since (ms)")),
                (
                    "message_digest",
                    models.CharField(
                        default="",
                        help_text="Of args, kwargs and headers when the error was found: another one is looked at anew.",
                        max_length=32,
                        verbose_name="digest of the message",
                    ),
                ),
            ],
            options={
                "verbose_name": "job state",
                "verbose_name_plural": "job states",
                "indexes": [models.Index(fields=["fire_at_ms", "job"], name="leased_cron_state_fire_at")],
            },
        ),
        migrations.CreateModel(
            name="SchedulerLease",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("tenant_key", models.CharField(max_length=191, unique=True, verbose_name="tenant")),
                ("holder_id", models.CharField(blank=True, default="", max_length=150, verbose_name="holder")),
                ("epoch", models.BigIntegerField(default=0, verbose_name="epoch")),
                ("acquired_at_ms", models.BigIntegerField(default=0, verbose_name="acquired at (ms)")),
                ("expires_at_ms", models.BigIntegerField(default=0, verbose_name="expires at (ms)")),
                ("progressed_at_ms", models.BigIntegerField(default=0, verbose_name="progressed at (ms)")),
                ("owed_since_ms", models.BigIntegerField(blank=True, null=True, verbose_name="owed since (ms)")),
                (
                    "hand_over_requested_at_ms",
                    models.BigIntegerField(blank=True, null=True, verbose_name="hand-over requested at (ms)"),
                ),
            ],
            options={
                "verbose_name": "scheduler lease",
                "verbose_name_plural": "scheduler leases",
                "permissions": [("hand_over_schedulerlease", "Can ask the holder of a scheduler lease to hand over")],
                "indexes": [models.Index(fields=["holder_id"], name="leased_cron_lease_holder")],
            },
        ),
        migrations.CreateModel(
            name="Occurrence",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_name", models.CharField(default="", max_length=200, verbose_name="job name")),
                ("due_at_ms", models.BigIntegerField(verbose_name="due at (ms)")),
                ("first_due_at_ms", models.BigIntegerField(null=True, verbose_name="first due at (ms)")),
                ("slots", models.BigIntegerField(default=1, verbose_name="slots")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("requested", "requested"),
                            ("claimed", "claimed"),
                            ("sent", "sent"),
                            ("running", "running"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("skipped", "skipped"),
                            ("uncertain", "uncertain"),
                        ],
                        max_length=10,
                        verbose_name="state",
                    ),
                ),
                ("reason", models.TextField(default="", verbose_name="reason or error")),
                ("epoch", models.BigIntegerField(default=0, verbose_name="epoch")),
                ("attempt", models.IntegerField(default=0, verbose_name="attempt")),
                ("task_id", models.CharField(default="", max_length=36, verbose_name="task id")),
                (
                    "delivery",
                    models.CharField(
                        choices=[("at_least_once", "at least once"), ("at_most_once", "at most once")],
                        default="",
                        max_length=20,
                        verbose_name="delivery",
                    ),
                ),
                ("claimed_at_ms", models.BigIntegerField(null=True, verbose_name="claimed at (ms)")),
                ("sent_at_ms", models.BigIntegerField(null=True, verbose_name="sent at (ms)")),
                ("run_attempt", models.IntegerField(null=True, verbose_name="attempt that runs")),
                ("started_at_ms", models.BigIntegerField(null=True, verbose_name="started at (ms)")),
                ("finished_at_ms", models.BigIntegerField(null=True, verbose_name="finished at (ms)")),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="leased_cron_occurrences",
                        to="django_celery_beat.periodictask",
                        verbose_name="job",
                    ),
                ),
            ],
            options={
                "verbose_name": "occurrence",
                "verbose_name_plural": "occurrences",
                "indexes": [models.Index(fields=["state", "due_at_ms"], name="leased_cron_occurrence_state")],
                "constraints": [
                    models.UniqueConstraint(fields=("job", "due_at_ms"), name="leased_cron_occurrence_once")
                ],
            },
        ),
    ]
