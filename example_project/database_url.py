"""A database as one environment variable."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

SQLITE_OPTIONS = {
    # Readers and the one writer go on beside each other, and a writer waits for its turn instead of failing at once.
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
}
_ENGINES = {
    "sqlite": "django.db.backends.sqlite3",
    "postgres": "django.db.backends.postgresql",
    "postgresql": "django.db.backends.postgresql",
    "mysql": "django.db.backends.mysql",
}


def parse_database_url(url: str) -> dict[str, Any]:
    """Return the entry of ``DATABASES`` for a URL.

    Args:
        url: ``sqlite:////absolute/path``, ``postgres://user:password@host:port/name`` or ``mysql://…``; a part with
            special characters is percent-encoded.

    Raises:
        ValueError: the scheme is not one of these.
    """
    parts = urlsplit(url)
    if parts.scheme not in _ENGINES:
        message = f"database URL {url!r}: the scheme must be one of {', '.join(_ENGINES)}"
        raise ValueError(message)
    name = unquote(parts.path.removeprefix("/"))
    if parts.scheme == "sqlite":
        return {"ENGINE": _ENGINES["sqlite"], "NAME": name, "OPTIONS": SQLITE_OPTIONS.copy()}
    return {
        "ENGINE": _ENGINES[parts.scheme],
        "NAME": name,
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
    }
