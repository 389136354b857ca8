import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("leased_cron", "0002_edit_triggers"),
    ]

    operations = [
        migrations.CreateModel(
            name="CodeJob",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        primary_key=True,
                        related_name="leased_cron_code",
                        serialize=False,
                        to="django_celery_beat.periodictask",
                        verbose_name="job",
                    ),
                ),
                (
                    "entry",
                    models.CharField(help_text="Its key in beat_schedule.", max_length=200, verbose_name="entry"),
                ),
                ("in_code", models.BooleanField(default=True, verbose_name="in the code")),
            ],
            options={
                "verbose_name": "job of the code",
                "verbose_name_plural": "jobs of the code",
            },
        ),
    ]
