"""``leased_jobs pause`` and ``resume``, on every supported database."""

from __future__ import annotations

import getpass

import pytest
from django.core.management import CommandError

from django_leased_cron.models import JobPolicy, TenantPolicy
from tests.integration.fixed_clock import NOW_MS
from tests.integration.leased_jobs import create_crontab, create_job, read, run

UNTIL = "2027-01-15T09:00:00.000Z"


@pytest.fixture
def jobs(alias: str) -> dict[str, int]:
    """Create two jobs; return their ids by name."""
    return {name: create_job(alias, name, crontab_id=create_crontab(alias).pk).pk for name in ("a", "b")}


def read_pause(alias: str, job_id: int) -> tuple[bool, str, str, int | None]:
    policy = JobPolicy.objects.using(alias).get(job_id=job_id)
    return policy.paused, policy.paused_by, policy.paused_reason, policy.paused_until_ms


def test_paused_job_says_by_whom_why_and_until_when(alias: str, jobs: dict[str, int]) -> None:
    """And only that one is."""
    answer = read("pause", "a", "--reason", "stocktaking", "--until", UNTIL)
    assert answer == [{"tenant": "default", "job": "a", "paused": True, "until_at": UNTIL}]
    assert read_pause(alias, jobs["a"]) == (True, getpass.getuser(), "stocktaking", NOW_MS + 3_600_000)
    assert [job["paused"] for job in read("list")] == [True, False]


def test_the_rest_of_a_policy_stays(alias: str, jobs: dict[str, int]) -> None:
    """Through a pause and its end, of which nothing is kept."""
    JobPolicy.objects.using(alias).create(job_id=jobs["a"], jitter_s=30, catch_up="all")
    run("pause", "a", "b", "--reason", "why")
    assert read("resume", "a") == [{"tenant": "default", "job": "a", "paused": False, "until_at": None}]
    assert read_pause(alias, jobs["a"]) == (False, "", "", None)
    assert read_pause(alias, jobs["b"])[0]
    policy = JobPolicy.objects.using(alias).get(job_id=jobs["a"])
    assert (policy.jitter_s, policy.catch_up) == (30, "all")


def test_whole_tenant_is_paused_and_resumed(alias: str, jobs: dict[str, int]) -> None:
    """Jobs that are paused themselves stay so."""
    run("pause", "a")
    assert read("pause", "--all", "--until", UNTIL) == [
        {"tenant": "default", "job": None, "paused": True, "until_at": UNTIL}
    ]
    assert TenantPolicy.objects.using(alias).get().paused_by == getpass.getuser()
    assert [job["paused"] for job in read("list")] == [True, True]
    assert "(all)" in run("resume", "--all")
    assert [job["paused"] for job in read("list")] == [True, False]


def test_nothing_to_resume_is_exit_code_1(alias: str, jobs: dict[str, int]) -> None:
    """Of jobs and of the tenant."""
    for arguments in (("a",), ("--all",)):
        with pytest.raises(CommandError, match="Nothing was paused") as failure:
            run("resume", *arguments)
        assert failure.value.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("c",), "There is no job 'c' in tenant 'default'."),
        ((), "Name jobs, or say --all for the whole tenant; not both."),
        (("a", "--all"), "Name jobs, or say --all for the whole tenant; not both."),
        (("a", "--until", "2027-01-15T08:00Z"), "--until 2027-01-15 08:00:00 UTC is in the past"),
        (("--all", "--until", "2027-01-15T08:00Z"), "--until 2027-01-15 08:00:00 UTC is in the past"),
        (("a", "--reason", "x" * 256), "--reason has 256 characters; at most 255 are possible."),
    ],
)
def test_what_cannot_be_done_is_exit_code_2(
    alias: str, jobs: dict[str, int], arguments: tuple[str, ...], complaint: str
) -> None:
    """And pauses nothing."""
    with pytest.raises(CommandError) as failure:
        run("pause", *arguments)
    assert failure.value.returncode == 2
    assert complaint in str(failure.value)
    assert not any(job["paused"] for job in read("list"))


def test_user_without_a_name_is_nobody(alias: str, jobs: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs with an arbitrary user id."""

    def fail() -> str:
        raise KeyError

    monkeypatch.setattr(getpass, "getuser", fail)
    run("pause", "a")
    assert read_pause(alias, jobs["a"])[1] == ""
