"""``make demo``: three schedulers, one worker; one scheduler is killed, one frozen, one stopped.

Everything printed is read from the tables, from the file that the worker appends to, or from a scheduler's own log;
what should have happened is computed from the jobs' schedules alone.
"""
