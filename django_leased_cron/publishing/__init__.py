"""Handing messages to the broker: one publisher, and one small module per family of brokers behind it."""

from __future__ import annotations

from typing import Final

from celery import Celery

from django_leased_cron.core.clock import Clock
from django_leased_cron.core.publication import Publisher
from django_leased_cron.exceptions import ConfigurationError
from django_leased_cron.publishing.broker import Broker
from django_leased_cron.publishing.celery_publisher import CeleryPublisher
from django_leased_cron.publishing.filesystem import FilesystemBroker
from django_leased_cron.publishing.plain import PlainBroker
from django_leased_cron.publishing.rabbitmq import RabbitMQBroker
from django_leased_cron.publishing.redis import RedisBroker

_BROKERS: dict[str, type[Broker]] = {
    "amqp": RabbitMQBroker,
    "filesystem": FilesystemBroker,
    "redis": RedisBroker,
}
"""By the driver type of kombu's transport; Valkey and Sentinel are ``redis``."""


_HINT: Final = "Write for example 'redis://localhost:6379/0' or 'amqp://localhost'."


def build_publisher(app: Celery, clock: Clock, publish_timeout_s: float) -> Publisher:
    """Return a publisher for the app's broker; connects to nothing yet.

    Imports the project's task modules first, as beat does: the options of a task count for how it is sent.

    Raises:
        ConfigurationError: ``task_always_eager`` is on, or there is no such transport as ``broker_url`` names.
        ImportError: the library for this broker is not installed, or a task module cannot be imported.
    """
    app.loader.init_worker()
    app.finalize()
    broker = _BROKERS.get(_find_driver(app), PlainBroker)()
    return CeleryPublisher(app, clock, publish_timeout_s=publish_timeout_s, broker=broker)


def _find_driver(app: Celery) -> str:
    try:
        driver: str = app.connection_for_write().get_transport_cls().driver_type
    except (KeyError, ValueError) as exc:
        # What kombu says of a URL that cannot be taken apart may hold a piece of the password; of an unknown transport
        # it says the name, and at times a better one.
        said = f" ({exc.args[0]})" if isinstance(exc, KeyError) and exc.args else ""
        problem = f"Celery's configuration: broker_url names no broker that Celery knows{said}. {_HINT}"
        raise ConfigurationError([problem]) from exc
    return driver
