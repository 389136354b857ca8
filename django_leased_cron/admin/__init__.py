"""The admin pages, for the database that the admin itself uses (``default``).

Machine state is shown and never edited: a form that loaded a lease before a takeover would write the old epoch back
and break the fence (I2). People edit jobs, job policies and tenant policies.
"""

from __future__ import annotations

from django_leased_cron.admin.jobs import JobAdmin
from django_leased_cron.admin.leases import SchedulerLeaseAdmin, SchedulerProcessAdmin
from django_leased_cron.admin.occurrences import OccurrenceAdmin
from django_leased_cron.admin.policies import JobPolicyInline
from django_leased_cron.admin.tenants import TenantPolicyAdmin

__all__ = [
    "JobAdmin",
    "JobPolicyInline",
    "OccurrenceAdmin",
    "SchedulerLeaseAdmin",
    "SchedulerProcessAdmin",
    "TenantPolicyAdmin",
]
