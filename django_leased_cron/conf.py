"""The settings: one dict ``LEASED_CRON`` in, one frozen record out, every problem named at once.

:func:`find_problems` is the one truth behind the loader, the system checks and ``run_leased_scheduler --check``.
Nothing else of the app reads ``django.conf.settings``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.conf import settings as project_settings
from django.core.signals import setting_changed
from django.dispatch import receiver

from django_leased_cron.core.occurrence import CatchUp, Delivery
from django_leased_cron.core.timing import LeaseTiming
from django_leased_cron.exceptions import ConfigurationError
from django_leased_cron.setting_values import (
    SETTING,
    SINGLE_TENANT,
    Problem,
    choice_reader,
    count_reader,
    read_duration,
    read_duration_or_none,
    read_flag,
    read_mapping,
    read_port_or_none,
    read_tenants_backend,
    read_text,
    suggestion,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedCronSettings:
    """The settings, checked and complete; durations are seconds."""

    lease_ttl_s: float
    heartbeat_s: float
    rescue_after_s: float | None
    poll_interval_s: float
    publish_timeout_s: float
    catch_up: CatchUp
    catch_up_window_s: float
    delivery: Delivery
    batch_size: int
    dispatch_threads: int
    history_retention_s: float
    track_runs: bool
    metrics_port: int | None
    metrics_address: str
    tenants_backend: str
    tenants_options: Mapping[str, Any]

    @property
    def timing(self) -> LeaseTiming:
        return LeaseTiming(
            lease_ttl_s=self.lease_ttl_s,
            heartbeat_s=self.heartbeat_s,
            poll_interval_s=self.poll_interval_s,
            rescue_after_s=self.rescue_after_s,
            publish_timeout_s=self.publish_timeout_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of the dict: where its value goes, its default, and how it is read."""

    field: str
    default: object
    """As people would write it; :data:`DERIVED` where it follows from other keys."""
    read: Callable[[str, object], object]
    """Turn what people wrote into what the record holds, or into the problem with it."""


DERIVED: Final = object()

KEYS: Final = {
    "TENANTS": Key(field="tenants", default={}, read=read_mapping),
    "LEASE_TTL": Key(field="lease_ttl_s", default=30, read=read_duration),
    "HEARTBEAT": Key(field="heartbeat_s", default=DERIVED, read=read_duration),
    "RESCUE_AFTER": Key(field="rescue_after_s", default=1, read=read_duration_or_none),
    "POLL_INTERVAL": Key(field="poll_interval_s", default=0.5, read=read_duration),
    "PUBLISH_TIMEOUT": Key(field="publish_timeout_s", default=5, read=read_duration),
    "CATCH_UP": Key(field="catch_up", default="once", read=choice_reader(CatchUp)),
    "CATCH_UP_WINDOW": Key(field="catch_up_window_s", default=86400, read=read_duration),
    "DELIVERY": Key(field="delivery", default="at_least_once", read=choice_reader(Delivery)),
    "BATCH_SIZE": Key(field="batch_size", default=500, read=count_reader(most=10_000)),
    "DISPATCH_THREADS": Key(field="dispatch_threads", default=4, read=count_reader(most=100)),
    "HISTORY_RETENTION": Key(field="history_retention_s", default=timedelta(days=7), read=read_duration),
    "TRACK_RUNS": Key(field="track_runs", default=True, read=read_flag),
    "METRICS_PORT": Key(field="metrics_port", default=None, read=read_port_or_none),
    "METRICS_ADDRESS": Key(field="metrics_address", default="127.0.0.1", read=read_text),
}
TENANTS_KEYS: Final = {
    "BACKEND": Key(field="tenants_backend", default=SINGLE_TENANT, read=read_tenants_backend),
    "OPTIONS": Key(field="tenants_options", default={}, read=read_mapping),
}
_ORDERS: Final = (
    ("HEARTBEAT", "LEASE_TTL", 3),
    ("POLL_INTERVAL", "RESCUE_AFTER", 1),
    ("PUBLISH_TIMEOUT", "LEASE_TTL", 1),
)
"""The first may be at most the second divided by the third."""


def find_problems(mapping: object) -> list[Problem]:
    """Return everything that is wrong with the dict ``LEASED_CRON``; an empty list if it can be used."""
    return _read(mapping)[1]


def build_settings(mapping: object) -> LeasedCronSettings:
    """Return the settings that the dict describes.

    Raises:
        ConfigurationError: names every problem.
    """
    values, problems = _read(mapping)
    if problems:
        raise ConfigurationError([str(problem) for problem in problems])
    return LeasedCronSettings(**values)


def with_overrides(
    settings: LeasedCronSettings,
    *,
    lease_ttl_s: float | None = None,
    heartbeat_s: float | None = None,
    poll_interval_s: float | None = None,
    metrics_port: int | None = None,
) -> LeasedCronSettings:
    """Return the settings with what a command's options say instead; ``None`` = not said.

    A new lease TTL alone sets the heartbeat to a third of it.

    Raises:
        ConfigurationError: names every problem of the combination.
    """
    mapping: dict[str, object] = {
        key: getattr(settings, declared.field) for key, declared in KEYS.items() if key != "TENANTS"
    }
    mapping["TENANTS"] = {"BACKEND": settings.tenants_backend, "OPTIONS": settings.tenants_options}
    if lease_ttl_s is not None:
        del mapping["HEARTBEAT"]
    said = {
        "LEASE_TTL": lease_ttl_s,
        "HEARTBEAT": heartbeat_s,
        "POLL_INTERVAL": poll_interval_s,
        "METRICS_PORT": metrics_port,
    }
    return build_settings(mapping | {key: value for key, value in said.items() if value is not None})


def read_project_setting(name: str, default: Any = None) -> Any:
    """Return a setting that is not ours: django-tenants', for one."""
    return getattr(project_settings, name, default)


def project_mapping() -> object:
    """Return the dict ``LEASED_CRON`` as the project wrote it, unchecked."""
    return getattr(project_settings, SETTING, {})


@functools.cache
def get_settings() -> LeasedCronSettings:
    """Return the project's settings, read once.

    Raises:
        ConfigurationError: names every problem.
    """
    return build_settings(project_mapping())


@receiver(setting_changed)
def _forget_settings(*, setting: str, **_: object) -> None:
    if setting == SETTING:
        get_settings.cache_clear()


def _read(mapping: object) -> tuple[dict[str, Any], list[Problem]]:
    """Return field names with values (complete only if there is no problem) and the problems."""
    if not isinstance(mapping, Mapping):
        return {}, [Problem(key=SETTING, message=f"it is {mapping!r}.", hint="Write a dict.")]
    values, problems = _read_keys(mapping, KEYS, path="")
    tenants_values, tenants_problems = _read_keys(values.pop("tenants", {}), TENANTS_KEYS, path="TENANTS.")
    values |= tenants_values
    if "HEARTBEAT" not in mapping and "lease_ttl_s" in values:
        values["heartbeat_s"] = values["lease_ttl_s"] / 3
    return values, [*problems, *tenants_problems, *_find_wrong_orders(mapping, values)]


def _read_keys(
    mapping: Mapping[Any, object], keys: Mapping[str, Key], *, path: str
) -> tuple[dict[str, Any], list[Problem]]:
    values: dict[str, Any] = {}
    problems = [
        Problem(
            key=f"{path}{key}",
            message=f"there is no key {path}{key}.",
            hint=suggestion(key, keys) or f"Known keys: {', '.join(keys)}.",
        )
        for key in mapping
        if key not in keys
    ]
    for key, declared in keys.items():
        written = mapping.get(key, declared.default)
        if written is DERIVED:
            continue
        value = declared.read(f"{path}{key}", written)
        if isinstance(value, Problem):
            problems.append(value)
        else:
            values[declared.field] = value
    return values, problems


def _find_wrong_orders(mapping: Mapping[Any, object], values: Mapping[str, Any]) -> Iterable[Problem]:
    for shorter, longer, divisor in _ORDERS:
        short, long = values.get(KEYS[shorter].field), values.get(KEYS[longer].field)
        # Divided floats: 0.1 s is a third of 0.3 s, whatever 0.3 / 3 is.
        if short is None or long is None or short <= long / divisor * (1 + 1e-9):
            continue
        said = f"{shorter} ({short:g} s{'' if shorter in mapping else ', the default'})"
        limit = f"{longer}{f' / {divisor}' if divisor > 1 else ''} ({long / divisor:g} s)"
        yield Problem(
            key=shorter, message=f"{said} is longer than {limit}.", hint=f"Shorten {shorter} or lengthen {longer}."
        )
