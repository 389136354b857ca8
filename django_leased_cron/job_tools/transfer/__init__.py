"""Taking jobs out of a tenant and into it: ``leased_jobs export`` and ``leased_jobs import``.

Whatever jobs come from (an exported file, ``beat_schedule``, RedBeat) is first turned into *entries* of one shape, the
JSON of an export. An entry that cannot become a job is told by name, all of them at once, and then nothing is written.
"""
