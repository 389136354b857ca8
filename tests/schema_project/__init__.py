"""A small project of django-tenants: a schema for each customer, tasks that a worker runs in the right one."""

from tests.schema_project.celery import app as celery_app

__all__ = ["celery_app"]
