"""The Celery app, of the class that tenant-schemas-celery brings."""

from __future__ import annotations

from tenant_schemas_celery.app import CeleryApp

app = CeleryApp("schema_project")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
