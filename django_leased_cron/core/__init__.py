"""What is true: lease rules, recurrence, catch-up, timings. Plain Python: no Django, no Celery, no clock."""
