"""A crontab field means what it means to Celery, whatever is typed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.core.test_recurrence_fields import NUMBERS, celery_reads, we_read

NUMBER = st.integers(0, 62).map(str) | st.sampled_from(["sun", "Mon", "friday", "jan", "DEC", "x"])
RANGE = st.builds("{}-{}".format, NUMBER, NUMBER)
PART = st.builds("{}{}".format, NUMBER | RANGE | st.just("*"), st.sampled_from(["", "", "/2", "/7", "/", " ", "/0"]))
FIELD = st.lists(PART, min_size=1, max_size=3).map(",".join) | st.text("0123*-/, _smonfeb\n", max_size=8)


@settings(max_examples=200, deadline=None)
@given(name=st.sampled_from(sorted(NUMBERS)), text=FIELD)
def test_any_text_is_read_as_celery_reads_it(name: str, text: str) -> None:
    """Whatever is typed, both accept it with the same numbers or both refuse it."""
    assert we_read(name, text) == celery_reads(name, text)
