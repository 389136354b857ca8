"""The schedule that a project's code holds, ``beat_schedule`` and ``add_periodic_task``, brought into the jobs' rows.

``entries.py`` reads it out of the Celery app, ``rows.py`` compares it with a tenant's jobs and writes what differs,
``sync.py`` does so at the start of each term. The planner sees the rows like those that people edit, and plans them.

What a row is changed to is decided by the mode, ``leased_cron_sync`` of Celery's configuration:

===============  =================================================  ====================
mode             entry whose job differs                            entry that is gone
===============  =================================================  ====================
``create_only``  the job stays as people left it                    its job is shown
``update``       the job gets what the code says                    its job is shown
``mirror``       the job gets what the code says                    its job is disabled
===============  =================================================  ====================

In every mode an entry without a job gets one. Whether a job is enabled is people's, unless the entry says it.
"""
