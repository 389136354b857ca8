"""Handing messages to the broker: one publisher, and one small module per family of brokers behind it."""

from __future__ import annotations

from celery import Celery

from django_leased_cron.core.clock import Clock
from django_leased_cron.core.publication import Publisher
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


def build_publisher(app: Celery, clock: Clock, publish_timeout_s: float) -> Publisher:
    """Return a publisher for the app's broker; connects to nothing yet.

    Imports the project's task modules first, as beat does: the options of a task count for how it is sent.

    Raises:
        ConfigurationError: ``task_always_eager`` is on.
        ImportError: the library for this broker is not installed, or a task module cannot be imported.
    """
    app.loader.init_worker()
    app.finalize()
    driver = app.connection_for_write().get_transport_cls().driver_type
    broker = _BROKERS.get(driver, PlainBroker)()
    return CeleryPublisher(app, clock, publish_timeout_s=publish_timeout_s, broker=broker)
