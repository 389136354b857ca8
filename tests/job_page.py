"""django-celery-beat's page of one job, submitted as a browser would."""

from __future__ import annotations

from typing import Any

from django.test import Client
from django.urls import reverse

CHANGE = "admin:django_celery_beat_periodictask_change"


def submit(client: Client, job: Any, **values: Any) -> Any:
    """Submit a job's page as it is shown, but for some values."""
    shown = client.get(reverse(CHANGE, args=[job.pk])).context
    forms = [shown["adminform"].form, *shown["inline_admin_formsets"][0].formset.forms]
    forms.append(shown["inline_admin_formsets"][0].formset.management_form)
    data = {field.html_name: field.value() for form in forms for field in form}
    sent = {name: value for name, value in (data | values).items() if value is not None and value is not False}
    return client.post(reverse(CHANGE, args=[job.pk]), sent)
