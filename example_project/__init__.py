"""A whole project with jobs, as small as it gets; the demo and the acceptance tests run it as real processes."""

from example_project.celery import app as celery_app

__all__ = ["celery_app"]
