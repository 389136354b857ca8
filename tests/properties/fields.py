"""Crontabs to try things on: the five fields in crontab(5)'s order."""

from __future__ import annotations

from hypothesis import strategies as st

MINUTES = st.sampled_from(["0", "30", "1,59", "*/20", "15,45", "7-50/13", "*"])
HOURS = st.sampled_from(["*", "*/1", "0-23", "0-22", "2", "1-3", "*/6", "22-2", "1-23/2"]) | st.sets(
    st.sampled_from([0, 1, 2, 3, 4, 12, 22, 23]), min_size=1
).map(lambda hours: ",".join(map(str, sorted(hours))))
DAYS_OF_MONTH = st.sampled_from(["*", "*", "*", "1,15,29", "8,25,30", "28-31", "*/2"])
MONTHS = st.sampled_from(["*", "*", "*", "3,10", "2-12/2", "jan"])
DAYS_OF_WEEK = st.sampled_from(["*", "*", "*", "0", "mon,wed,fri", "sat,sun", "1-5"])

FIELDS = st.builds("{} {} {} {} {}".format, MINUTES, HOURS, DAYS_OF_MONTH, MONTHS, DAYS_OF_WEEK)
"""Any accepted one of them has dates in every year."""
