from django.db import migrations, models


class Migration(migrations.Migration):
    """Notes of edits say whose they are: with a schema for each tenant, those of all are in one table."""

    dependencies = [
        ("leased_cron", "0003_code_jobs"),
    ]

    operations = [
        migrations.AddField(
            model_name="jobedit",
            name="schema_name",
            field=models.CharField(blank=True, db_default="", default="", max_length=63, verbose_name="schema"),
        ),
    ]
