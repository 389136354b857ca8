"""What a Django process with Celery needs before it schedules anything: the largest resident size, in MB."""

from __future__ import annotations

import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
django.setup()

from django_celery_beat.models import PeriodicTask  # noqa: E402 - the settings come first

from benchmarks.usage import read_peak_mb  # noqa: E402
from example_project.celery import app  # noqa: E402


def main() -> int:
    app.loader.import_default_modules()
    PeriodicTask.objects.exists()
    with app.connection_for_write() as connection:
        app.amqp.Producer(connection).maybe_declare(app.amqp.queues[app.conf.task_default_queue])
        print(read_peak_mb(os.getpid()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
