"""The Django project that the tests run in.

``DATABASES`` has one alias for each supported vendor whose driver is installed: ``sqlite`` (a file), ``postgres`` and
``mysql``. Their databases are this test run's own; ``tests/conftest.py`` creates and drops them. Processes that a test
starts with these settings inherit ``LEASED_CRON_TEST_RUN`` and so have the same databases under the same aliases.

``LEASED_CRON_TEST_DATABASE`` says which of them ``default`` is: ``sqlite`` (if not set), ``postgresql`` or ``mysql``.
"""

from __future__ import annotations

import os
import tempfile
from importlib.util import find_spec
from pathlib import Path

from example_project.database_url import parse_database_url
from tests.servers import SERVERS

RUN = os.environ.setdefault("LEASED_CRON_TEST_RUN", str(os.getpid()))
DATABASE_NAME = f"leased_cron_test_{RUN}"
SQLITE_FOLDER = Path(tempfile.gettempdir()) / DATABASE_NAME

SECRET_KEY = "only-for-tests"
ROOT_URLCONF = "example_project.urls"
USE_TZ = True
TIME_ZONE = "UTC"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django_celery_beat",
    "django_leased_cron",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # logging in is not what is tested

SQLITE_FILE = str(SQLITE_FOLDER / "db.sqlite3")
DATABASES = {
    "sqlite": parse_database_url(f"sqlite:///{SQLITE_FILE}") | {"TEST": {"NAME": SQLITE_FILE, "DEPENDENCIES": []}}
}
for alias in ("postgres", "mysql"):
    if find_spec(SERVERS[alias].driver):
        DATABASES[alias] = parse_database_url(SERVERS[alias].url) | {
            "NAME": DATABASE_NAME,
            "TEST": {"NAME": DATABASE_NAME, "DEPENDENCIES": []},
        }
_chosen = os.environ.get("LEASED_CRON_TEST_DATABASE", "sqlite").replace("postgresql", "postgres")
DATABASES["default"] = DATABASES[_chosen] | {"TEST": {}}

CELERY_BROKER_URL = "memory://"
