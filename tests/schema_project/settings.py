"""Settings of a project of django-tenants.

Read from the environment: ``SCHEMA_PROJECT_…`` ``DATABASE_URL`` (PostgreSQL), ``BROKER_URL``, ``QUEUE``, ``LOG_LEVEL``,
``LEASED_CRON`` (JSON, added to the setting) and ``NOTES`` (a file that the tasks write to).
"""

from __future__ import annotations

import json
import os

from example_project.database_url import parse_database_url

SECRET_KEY = "only-for-tests"
ROOT_URLCONF = "tests.schema_project.urls"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

DATABASES = {
    "default": parse_database_url(os.environ["SCHEMA_PROJECT_DATABASE_URL"])
    | {"ENGINE": "django_tenants.postgresql_backend"}
}
DATABASE_ROUTERS = ["django_tenants.routers.TenantSyncRouter"]
SHARED_APPS = [
    "django_tenants",
    "tests.schema_project.customers",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django_leased_cron",
]
TENANT_APPS = ["django.contrib.contenttypes", "django_celery_beat", "django_leased_cron"]
INSTALLED_APPS = [*SHARED_APPS, "django_celery_beat"]
SILENCED_SYSTEM_CHECKS = ["admin.E403", "admin.E408", "admin.E409", "admin.E410"]  # no page is served
TENANT_MODEL = "customers.Customer"
TENANT_DOMAIN_MODEL = "customers.Domain"

LEASED_CRON = {
    "TENANTS": {"BACKEND": "django_leased_cron.tenants.SchemaTenants"},
    **json.loads(os.environ.get("SCHEMA_PROJECT_LEASED_CRON", "{}")),
}

CELERY_BROKER_URL = os.environ.get("SCHEMA_PROJECT_BROKER_URL", "memory://")
CELERY_TASK_DEFAULT_QUEUE = os.environ.get("SCHEMA_PROJECT_QUEUE", "celery")
CELERY_TASK_IGNORE_RESULT = True

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"short": {"format": "%(asctime)s.%(msecs)03d %(levelname)s %(message)s", "datefmt": "%H:%M:%S"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "short"}},
    "loggers": {
        "django_leased_cron": {"handlers": ["stderr"], "level": os.environ.get("SCHEMA_PROJECT_LOG_LEVEL", "INFO")}
    },
}
