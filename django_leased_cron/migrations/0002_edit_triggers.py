from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from django_leased_cron.edit_triggers import uninstall


def remove_triggers(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Remove the triggers before their table goes: with them and without it, every edit of a job would fail."""
    uninstall(schema_editor.connection)


class Migration(migrations.Migration):
    """The table that triggers note edits in. ``post_migrate`` installs them, here and after every later migration."""

    dependencies = [
        ("leased_cron", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="JobEdit",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=10, verbose_name="kind")),
                ("row_id", models.BigIntegerField(verbose_name="row")),
            ],
            options={
                "verbose_name": "job edit",
                "verbose_name_plural": "job edits",
            },
        ),
        migrations.RunPython(migrations.RunPython.noop, remove_triggers),
    ]
