"""The loops: who holds, what is due, what went out, and the orderly end. No Django, no SQL, no Celery."""
