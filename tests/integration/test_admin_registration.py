"""Whose pages the jobs have: this app's, unless the project has its own."""

from __future__ import annotations

import subprocess
import sys

import pytest
from django.contrib import admin
from django_celery_beat.admin import PeriodicTaskAdmin
from django_celery_beat.models import PeriodicTask

from django_leased_cron.admin.jobs import JobAdmin, extend_job_pages


@pytest.mark.parametrize("order", [1, -1])
def test_pages_are_extended_whatever_the_order_of_the_apps(order: int) -> None:
    """In a process of its own, because apps are loaded once."""
    script = f"""
import django
from django.conf import settings
from tests import settings as tests
named = {{name: getattr(tests, name) for name in dir(tests) if name.isupper()}}
settings.configure(**named | {{"INSTALLED_APPS": tests.INSTALLED_APPS[::{order}]}})
django.setup()
from django.contrib import admin
from django_celery_beat.models import PeriodicTask
print(type(admin.site.get_model_admin(PeriodicTask)).__name__)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "JobAdmin\n"


def test_page_of_the_project_stays() -> None:
    """Neither one that it registered nor its wish to have none is overruled."""
    site = admin.AdminSite()
    extend_job_pages(site)
    assert not site.is_registered(PeriodicTask)
    own = type("Own", (PeriodicTaskAdmin,), {})
    site.register(PeriodicTask, own)
    extend_job_pages(site)
    assert type(site.get_model_admin(PeriodicTask)) is own
    site.unregister(PeriodicTask)
    site.register(PeriodicTask, PeriodicTaskAdmin)
    extend_job_pages(site)
    assert type(site.get_model_admin(PeriodicTask)) is JobAdmin


def test_project_that_forgot_celery_beats_app_is_told_so() -> None:
    """By the system check: no import of the admin pages fails before it."""
    script = """
import django
from django.conf import settings
from django.core.management import call_command
from tests import settings as tests
named = {name: getattr(tests, name) for name in dir(tests) if name.isupper()}
apps = [app for app in tests.INSTALLED_APPS if app != "django_celery_beat"]
settings.configure(**named | {"INSTALLED_APPS": apps})
django.setup()
call_command("check")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "(leased_cron.E002) django_celery_beat is not installed." in done.stderr
