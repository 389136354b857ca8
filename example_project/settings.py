"""Settings from the environment, so that many copies with other databases, brokers and timings can run side by side.

========================  ============================================================================
``EXAMPLE_DATA_DIR``      where the SQLite file and the filesystem broker's messages are
``EXAMPLE_DATABASE_URL``  ``sqlite:////path``, ``postgres://user:password@host:port/name``, ``mysql://…``
``EXAMPLE_DATABASE_URLS`` more databases: alias to URL, as JSON
``EXAMPLE_BROKER_URL``    a Celery broker; default: files below the data directory
``EXAMPLE_QUEUE``         the queue of its tasks
``EXAMPLE_LEASED_CRON``   the dict ``LEASED_CRON`` as JSON
``EXAMPLE_LOG_LEVEL``     ``DEBUG``, ``INFO``, …
``EXAMPLE_TIME_ZONE``     the project's and Celery's; UTC if left out
``EXAMPLE_USE_TZ``        ``0``: local time is stored
========================  ============================================================================
"""

import json
import os
from pathlib import Path

from example_project.database_url import parse_database_url

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(os.environ.get("EXAMPLE_DATA_DIR", BASE_DIR / ".example")).resolve()
DATA_DIR.mkdir(parents=True, exist_ok=True)

SECRET_KEY = "only-an-example"  # noqa: S105 - guards nothing
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "example_project.urls"
USE_TZ = os.environ.get("EXAMPLE_USE_TZ", "1") == "1"
TIME_ZONE = os.environ.get("EXAMPLE_TIME_ZONE", "UTC")
STATIC_URL = "static/"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_celery_beat",
    "django_leased_cron",
    "example_project",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
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

MORE_DATABASES = json.loads(os.environ.get("EXAMPLE_DATABASE_URLS", "{}"))
DATABASES = {
    "default": parse_database_url(os.environ.get("EXAMPLE_DATABASE_URL", f"sqlite:///{DATA_DIR / 'db.sqlite3'}")),
    **{alias: parse_database_url(url) for alias, url in MORE_DATABASES.items()},
}

LEASED_CRON = json.loads(os.environ.get("EXAMPLE_LEASED_CRON", "{}"))

CELERY_BROKER_URL = os.environ.get("EXAMPLE_BROKER_URL", "filesystem://localhost")
CELERY_TASK_DEFAULT_QUEUE = os.environ.get("EXAMPLE_QUEUE", "celery")
CELERY_TASK_IGNORE_RESULT = True
CELERY_TIMEZONE = TIME_ZONE
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
if CELERY_BROKER_URL.startswith("filesystem:"):
    CELERY_BROKER_TRANSPORT = "django_leased_cron.publishing.filesystem:Transport"
    MESSAGES_DIR = DATA_DIR / "messages"
    MESSAGES_DIR.mkdir(exist_ok=True)
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(MESSAGES_DIR),
        "data_folder_out": str(MESSAGES_DIR),
        "control_folder": str(DATA_DIR / "control"),
        "polling_interval": 0.1,
    }

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "format": "%(asctime)s.%(msecs)03d %(process)d %(levelname)s %(name)s: %(message)s",
            "datefmt": "%H:%M:%S",
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": os.environ.get("EXAMPLE_LOG_LEVEL", "INFO")},
}
