"""A schema for each customer, and what the customers' tasks write."""

from __future__ import annotations

from django_tenants.models import DomainMixin, TenantMixin


class Customer(TenantMixin):  # type: ignore[misc]  # no types
    """One tenant; creating it creates its schema."""

    auto_drop_schema = True


class Domain(DomainMixin):  # type: ignore[misc]  # no types
    """What django-tenants wants beside it."""
