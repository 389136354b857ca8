"""Which tenants and jobs the arguments of ``leased_jobs`` mean."""

from __future__ import annotations

import pytest
from django.core.management import CommandError

from django_leased_cron.management.jobs import choice
from django_leased_cron.management.jobs.choice import choose_jobs, choose_tenants, refuse_nobody
from django_leased_cron.tenants import Tenant

ACME, UMBRELLA, WAYNE = (Tenant(key=key, alias=key) for key in ("acme", "umbrella", "wayne"))
JOBS = {"acme": {"report": 1, "tick": 2}, "umbrella": {"report": 7}, "wayne": {}}


@pytest.fixture(autouse=True)
def _jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "read_job_ids", lambda tenant: JOBS[tenant.key])


def test_tenants_are_in_order_of_their_keys() -> None:
    """Those named, or all."""
    assert choose_tenants([WAYNE, ACME], []) == [ACME, WAYNE]
    assert choose_tenants([WAYNE, ACME, UMBRELLA], ["wayne", "acme"]) == [ACME, WAYNE]


@pytest.mark.parametrize(
    ("key", "hint"), [("umbrela", "Did you mean 'umbrella'?"), ("zzz", "Listed are: 'acme', 'umbrella'.")]
)
def test_unknown_tenant_says_what_was_meant(key: str, hint: str) -> None:
    """Or which there are; exit code 2."""
    with pytest.raises(CommandError) as failure:
        choose_tenants([UMBRELLA, ACME], [key])
    assert (str(failure.value), failure.value.returncode) == (f"There is no tenant '{key}'. {hint}", 2)


def test_name_means_the_job_of_each_tenant_that_has_one() -> None:
    """Once, and tenants without any are left alone."""
    assert choose_jobs([ACME, UMBRELLA, WAYNE], ["tick", "report", "tick"]) == {
        ACME: {"report": 1, "tick": 2},
        UMBRELLA: {"report": 7},
    }


def test_name_that_no_tenant_has_is_an_error() -> None:
    """Whatever the other names are."""
    with pytest.raises(CommandError) as failure:
        choose_jobs([ACME, UMBRELLA], ["report", "Tock"])
    assert failure.value.returncode == 2
    assert str(failure.value) == "There is no job 'Tock' in any of 2 tenants. Did you mean 'tick'?"


def test_nobody_to_act_on_is_exit_code_1() -> None:
    """A project without tenants."""
    refuse_nobody([ACME])
    with pytest.raises(CommandError, match="nothing to act on") as failure:
        refuse_nobody([])
    assert failure.value.returncode == 1
