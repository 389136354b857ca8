"""``leased_jobs import --from-redbeat``, from keys as RedBeat 2 writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from celery import Celery
from django.core.management import CommandError

from django_leased_cron.management.jobs import transfer
from tests.integration.leased_jobs import read, run

INTERVAL = {"__type__": "interval", "every": 90.0, "relative": False}
CRONTAB = {
    "__type__": "crontab",
    "minute": "30",
    "hour": [5, 17],
    "day_of_week": "*",
    "day_of_month": "*",
    "month_of_year": "*",
}
Save = Callable[..., None]

pytestmark = pytest.mark.parametrize("database_alias", ["sqlite"], indirect=True)


@pytest.fixture
def app(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Celery:
    """Return an app whose entries are under a prefix of their own."""
    app = Celery("project", set_as_current=False)
    app.conf.update(redbeat_redis_url=redis_url, redbeat_key_prefix=f"test-{uuid4().hex}:", timezone="Europe/Berlin")
    monkeypatch.setattr(transfer, "current_app", app)
    return app


@pytest.fixture
def save(app: Celery, redis_url: str) -> Iterator[Save]:
    """Yield what writes an entry."""
    redis = pytest.importorskip("redis")
    prefix: str = app.conf.redbeat_key_prefix
    with redis.Redis.from_url(redis_url) as client:

        def save(name: str, **changes: Any) -> None:
            definition: dict[str, Any] = {
                "name": name,
                "task": "shop.close",
                "args": [1],
                "kwargs": None,
                "options": {},
                "enabled": True,
            }
            key, score = f"{prefix}{name}", 1_800_000_000
            client.hset(key, "definition", json.dumps({**definition, **changes}))
            client.hset(key, "meta", json.dumps({"last_run_at": None}))
            client.zadd(f"{prefix}:schedule", {key: score})

        yield save
        for key in client.scan_iter(f"{prefix}*"):
            client.delete(key)


def test_entries_become_jobs(alias: str, save: Save) -> None:
    """With their options, and as enabled as they were."""
    save("tick", schedule=INTERVAL, options={"queue": "slow", "expires": 60})
    save("report", schedule=CRONTAB, enabled=False)
    assert [line["action"] for line in read("import", "--from-redbeat")] == ["created", "created"]
    report, tick = json.loads(run("export"))
    assert report["schedule"]["crontab"]["hour"] == "5,17"
    assert report["schedule"]["crontab"]["timezone"] == "Europe/Berlin"
    assert (report["enabled"], report["args"], report["kwargs"]) == (False, [1], {})
    assert tick["schedule"] == {"interval": {"every": 90, "period": "seconds"}}
    assert (tick["queue"], tick["expire_seconds"]) == ("slow", 60)
    assert [line["action"] for line in read("import", "--from-redbeat")] == ["unchanged", "unchanged"]


def test_entries_that_cannot_be_jobs_are_named(alias: str, save: Save) -> None:
    """And nothing is imported."""
    save("good", schedule=INTERVAL)
    save("relative", schedule=INTERVAL | {"relative": True})
    save("rule", schedule={"__type__": "rrule", "freq": 5})
    save("none", schedule=None)
    save("refused", schedule=CRONTAB | {"hour": "25"})
    with pytest.raises(CommandError) as failure:
        run("import", "--from-redbeat")
    assert failure.value.returncode == 2
    said = str(failure.value)
    assert "job 'relative': schedule: relative:" in said
    assert "job 'rule': schedule:" in said
    assert "job 'none': its definition cannot be read (" in said
    assert "job 'refused': its definition cannot be read (" in said
    assert "'good'" not in said
    assert read("list") == []


def test_no_entries_are_nothing_to_act_on(alias: str, save: Save) -> None:
    """Exit code 1: another prefix, perhaps."""
    with pytest.raises(CommandError, match="There is no job to import") as failure:
        run("import", "--from-redbeat")
    assert failure.value.returncode == 1


def test_redis_that_does_not_answer_is_said(alias: str, app: Celery) -> None:
    """So is a broker that is no Redis, where no other URL is given."""
    for url in ("redis://127.0.0.1:1/0", "amqp://guest@127.0.0.1//"):
        app.conf.redbeat_redis_url = url
        with pytest.raises(CommandError, match="RedBeat: cannot be read") as failure:
            run("import", "--from-redbeat")
        assert failure.value.returncode == 2
