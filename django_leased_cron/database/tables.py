"""The names of the tables that our own SQL reads and writes."""

from __future__ import annotations

from typing import Final

LEASE: Final = "leased_cron_schedulerlease"
PROCESS: Final = "leased_cron_schedulerprocess"
STATE: Final = "leased_cron_jobstate"
OCCURRENCE: Final = "leased_cron_occurrence"
JOB_POLICY: Final = "leased_cron_jobpolicy"
TENANT_POLICY: Final = "leased_cron_tenantpolicy"
JOB: Final = "django_celery_beat_periodictask"
EDIT: Final = "leased_cron_jobedit"
