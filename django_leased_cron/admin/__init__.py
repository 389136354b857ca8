"""The admin pages, for the database that the admin itself uses (``default``).

Machine state is shown and never edited: a form that loaded a lease before a takeover would write the old epoch back
and break the fence (I2). People edit jobs, job policies and tenant policies.
"""

from __future__ import annotations

from django.apps import apps

from django_leased_cron.admin.leases import SchedulerLeaseAdmin, SchedulerProcessAdmin
from django_leased_cron.admin.occurrences import OccurrenceAdmin
from django_leased_cron.admin.tenants import TenantPolicyAdmin

# Without it the system check E002 says what is missing; an import that fails first would keep it from being read.
if apps.is_installed("django_celery_beat"):
    from django_leased_cron.admin import jobs as _jobs  # noqa: F401 - registers the pages of the jobs

__all__ = ["OccurrenceAdmin", "SchedulerLeaseAdmin", "SchedulerProcessAdmin", "TenantPolicyAdmin"]
