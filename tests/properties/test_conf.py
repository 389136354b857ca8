"""Durations are refused, or in the right order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_leased_cron.conf import build_settings, find_problems
from django_leased_cron.exceptions import ConfigurationError
from tests.unit.test_conf import DURATIONS

seconds = st.floats(min_value=0.001, max_value=1e6)


@given(st.dictionaries(st.sampled_from(DURATIONS), seconds | st.none() | st.timedeltas()))
def test_whatever_is_accepted_keeps_the_orders(mapping: dict[str, Any]) -> None:
    """Settings exist only in the right order, and problems exist for all others."""
    if problems := find_problems(mapping):
        with pytest.raises(ConfigurationError) as caught:
            build_settings(mapping)
        assert len(caught.value.problems) == len(problems)
        return
    timing = build_settings(mapping).timing
    assert 0 < timing.heartbeat_s <= timing.lease_ttl_s / 3 * 1.000001
    assert timing.publish_timeout_s <= timing.lease_ttl_s * 1.000001
    assert timing.rescue_after_s is None or timing.poll_interval_s <= timing.rescue_after_s * 1.000001
    assert timing.lease_ttl_ms >= 1
