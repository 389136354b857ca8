"""The settings: what is accepted, what is refused, and that every refusal names the key, the value and the remedy."""

from __future__ import annotations

import math
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest
from pytest_django import Settings

from django_leased_cron.conf import (
    KEYS,
    LeasedCronSettings,
    build_settings,
    find_problems,
    get_settings,
    with_overrides,
)
from django_leased_cron.core.occurrence import CatchUp, Delivery
from django_leased_cron.exceptions import ConfigurationError

DURATIONS = [key for key, declared in KEYS.items() if declared.field.endswith("_s")]


def test_nothing_said_means_the_defaults() -> None:
    """An empty dict gives the documented values."""
    assert build_settings({}) == LeasedCronSettings(
        lease_ttl_s=30,
        heartbeat_s=10,
        rescue_after_s=1,
        poll_interval_s=0.5,
        publish_timeout_s=5,
        catch_up=CatchUp.ONCE,
        catch_up_window_s=86400,
        delivery=Delivery.AT_LEAST_ONCE,
        batch_size=500,
        dispatch_threads=4,
        history_retention_s=7 * 86400,
        track_runs=True,
        metrics_port=None,
        metrics_address="127.0.0.1",
        tenants_backend="django_leased_cron.tenants.SingleTenant",
        tenants_options={},
    )


def test_everything_said_is_read() -> None:
    """Each key reaches its field, in the field's type."""
    settings = build_settings(
        {
            "TENANTS": {"BACKEND": "shop.tenants.Shops", "OPTIONS": {"region": "eu"}},
            "LEASE_TTL": timedelta(minutes=1),
            "HEARTBEAT": 20,
            "RESCUE_AFTER": None,
            "POLL_INTERVAL": 2,
            "PUBLISH_TIMEOUT": 6.5,
            "CATCH_UP": "all",
            "CATCH_UP_WINDOW": timedelta(hours=1),
            "DELIVERY": Delivery.AT_MOST_ONCE,
            "BATCH_SIZE": 50,
            "DISPATCH_THREADS": 1,
            "HISTORY_RETENTION": timedelta(days=1),
            "TRACK_RUNS": False,
            "METRICS_PORT": 9100,
            "METRICS_ADDRESS": "10.0.0.1",
        }
    )
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    assert values == {
        "tenants_backend": "shop.tenants.Shops",
        "tenants_options": {"region": "eu"},
        "lease_ttl_s": 60.0,
        "heartbeat_s": 20.0,
        "rescue_after_s": None,
        "poll_interval_s": 2.0,
        "publish_timeout_s": 6.5,
        "catch_up": CatchUp.ALL,
        "catch_up_window_s": 3600.0,
        "delivery": Delivery.AT_MOST_ONCE,
        "batch_size": 50,
        "dispatch_threads": 1,
        "history_retention_s": 86400.0,
        "track_runs": False,
        "metrics_port": 9100,
        "metrics_address": "10.0.0.1",
    }


@pytest.mark.parametrize("key", DURATIONS)
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, 10**400, True, "30", timedelta(0), [1]])
def test_duration_that_is_none_is_refused(key: str, value: object) -> None:
    """The one problem names key and value."""
    problem = find_problems({key: value})[0]
    assert problem.key == key
    assert problem.message.startswith(f"{key} is ")
    assert problem.hint


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("LEASE_TTL", None),
        ("CATCH_UP", "twice"),
        ("CATCH_UP", None),
        ("DELIVERY", ["at_least_once"]),
        ("BATCH_SIZE", 0),
        ("BATCH_SIZE", 1.5),
        ("BATCH_SIZE", True),
        ("BATCH_SIZE", 10_001),
        ("BATCH_SIZE", 10**20),
        ("DISPATCH_THREADS", "4"),
        ("DISPATCH_THREADS", 101),
        ("TRACK_RUNS", 1),
        ("METRICS_PORT", 0),
        ("METRICS_PORT", 65536),
        ("METRICS_PORT", "9100"),
        ("METRICS_ADDRESS", ""),
        ("TENANTS", "django_leased_cron.tenants.SingleTenant"),
        ("TENANTS", {1: 2}),
    ],
)
def test_wrong_value_is_refused_with_its_key_and_value(key: str, value: object) -> None:
    """One wrong value is one problem, which shows it."""
    (problem,) = find_problems({key: value})
    assert problem.key == key
    assert repr(value) in problem.message
    assert problem.hint


@pytest.mark.parametrize(
    ("tenants", "key", "words"),
    [
        ({"BACKEND": "SingleTenant"}, "TENANTS.BACKEND", "not a dotted path"),
        ({"BACKEND": None}, "TENANTS.BACKEND", "not a dotted path"),
        ({"OPTIONS": ["default"]}, "TENANTS.OPTIONS", "['default']"),
        ({"backend": "a.B"}, "TENANTS.backend", "there is no key"),
    ],
)
def test_wrong_tenants_are_refused(tenants: dict[str, Any], key: str, words: str) -> None:
    """The nested dict is read with the same care."""
    (problem,) = find_problems({"TENANTS": tenants})
    assert problem.key == key
    assert words in problem.message


@pytest.mark.parametrize(
    ("written", "meant"),
    [("LEASE_TLL", "LEASE_TTL"), ("lease_ttl", "LEASE_TTL"), ("HEART_BEAT", "HEARTBEAT"), ("TENANT", "TENANTS")],
)
def test_unknown_key_is_answered_with_the_nearest(written: str, meant: str) -> None:
    """A slip of the finger gets a suggestion."""
    (problem,) = find_problems({written: 30})
    assert str(problem) == f"LEASED_CRON: there is no key {written}. Did you mean {meant!r}?"


def test_unknown_key_like_no_other_is_answered_with_all() -> None:
    """Where nothing is near, the known keys are listed; a key need not even be a text."""
    for written in ("XYZZY", 7):
        (problem,) = find_problems({written: 30})
        assert all(key in problem.hint for key in KEYS)


@pytest.mark.parametrize("mapping", [None, [], "LEASE_TTL=30", 30])
def test_setting_that_is_no_dict_is_refused(mapping: object) -> None:
    """The whole setting has a type too."""
    (problem,) = find_problems(mapping)
    assert str(problem) == f"LEASED_CRON: it is {mapping!r}. Write a dict."


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"HEARTBEAT": 11}, "HEARTBEAT (11 s) is longer than LEASE_TTL / 3 (10 s)."),
        ({"POLL_INTERVAL": 1.5}, "POLL_INTERVAL (1.5 s) is longer than RESCUE_AFTER (1 s)."),
        ({"RESCUE_AFTER": 0.2}, "POLL_INTERVAL (0.5 s, the default) is longer than RESCUE_AFTER (0.2 s)."),
        ({"LEASE_TTL": 3}, "PUBLISH_TIMEOUT (5 s, the default) is longer than LEASE_TTL (3 s)."),
    ],
)
def test_wrong_order_is_refused(mapping: dict[str, Any], message: str) -> None:
    """The message has both values, and says which of them nobody wrote."""
    (problem,) = find_problems(mapping)
    assert problem.message == message


@pytest.mark.parametrize("mapping", [{"LEASE_TTL": 0.3, "HEARTBEAT": 0.1, "PUBLISH_TIMEOUT": 0.3}, {"HEARTBEAT": 10}])
def test_order_that_is_just_kept_is_accepted(mapping: dict[str, Any]) -> None:
    """A third is a third, whatever floating point makes of it."""
    assert find_problems(mapping) == []


def test_without_rescue_the_poll_may_be_any() -> None:
    """POLL_INTERVAL is bounded by RESCUE_AFTER only where there is one."""
    assert build_settings({"RESCUE_AFTER": None, "POLL_INTERVAL": 20}).poll_interval_s == 20


def test_all_problems_are_said_at_once() -> None:
    """The loader raises one error that names every one of them."""
    with pytest.raises(ConfigurationError) as caught:
        build_settings({"LEASE_TLL": 3, "BATCH_SIZE": 0, "HEARTBEAT": 11, "TENANTS": {"BACKEND": 1}})
    assert len(caught.value.problems) == 4
    assert all(word in str(caught.value) for word in ("LEASE_TLL", "BATCH_SIZE", "HEARTBEAT", "TENANTS.BACKEND"))


def test_margins_follow_from_the_durations() -> None:
    """The figures of the protocol, with the default settings and without rescue."""
    timing = build_settings({}).timing
    assert timing.lease_ttl_ms == 30_000
    assert timing.rescue_after_ms == 1000
    assert timing.missed_after_ms == 31_500
    assert timing.start_margin_s == 2.5
    assert timing.loop_stalled_after_s == 15
    assert timing.batch_seconds == 0.25
    without_rescue = build_settings({"RESCUE_AFTER": None}).timing
    assert without_rescue.rescue_after_ms is None
    assert without_rescue.batch_seconds == 0.25
    assert build_settings({"RESCUE_AFTER": 2}).timing.batch_seconds == 0.5


def test_a_new_lease_ttl_alone_sets_the_heartbeat() -> None:
    """An option for the lease does not leave a heartbeat that is too long for it."""
    settings = build_settings({"HEARTBEAT": 8})
    assert with_overrides(settings, lease_ttl_s=6).heartbeat_s == 2
    assert with_overrides(settings, lease_ttl_s=6, heartbeat_s=1).heartbeat_s == 1
    assert with_overrides(settings).heartbeat_s == 8


def test_overrides_leave_the_rest_alone() -> None:
    """What the options do not say stays as the settings say it."""
    settings = build_settings({"RESCUE_AFTER": None, "TENANTS": {"BACKEND": "a.B", "OPTIONS": {"c": 1}}})
    changed = with_overrides(settings, poll_interval_s=3, metrics_port=9100)
    assert (changed.poll_interval_s, changed.metrics_port) == (3, 9100)
    assert with_overrides(changed, poll_interval_s=0.5) == with_overrides(settings, metrics_port=9100)


def test_overrides_that_contradict_the_settings_are_refused() -> None:
    """The combination is checked, not the option alone."""
    with pytest.raises(ConfigurationError, match=r"HEARTBEAT \(3 s\) is longer than LEASE_TTL / 3 \(2 s\)"):
        with_overrides(build_settings({}), lease_ttl_s=6, heartbeat_s=3)


def test_settings_are_read_once_and_again_after_a_change(settings: Settings) -> None:
    """A cache that forgets when a test changes the setting."""
    settings.LEASED_CRON = {"BATCH_SIZE": 7}
    first = get_settings()
    assert first.batch_size == 7
    assert get_settings() is first
    settings.LEASED_CRON = {"BATCH_SIZE": 8}
    assert get_settings().batch_size == 8
