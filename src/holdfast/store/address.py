"""Where the store is: `sqlite:///path` (or `sqlite://` in memory) and `postgresql://…`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from holdfast.base import MASK
from holdfast.store.statements import Engine

DEFAULT_ADDRESS = "sqlite:///./holdfast-data/holdfast.db"
ENVIRONMENT_VARIABLE = "HOLDFAST_DATABASE"

_PASSWORD = re.compile(r"(?<=://)([^/@]*?):[^@]*@|(?<=password=)(?:'[^']*'|[^&\s]+)")


class AddressInvalid(ValueError):
    """The address names no database that Holdfast can use."""


@dataclass(frozen=True, slots=True)
class Address:
    """A database, read from its URL."""

    engine: Engine
    target: str
    """A path (or `:memory:`) for SQLite, a connection string for PostgreSQL."""

    def __str__(self) -> str:
        return _masked(self.target) if self.engine is Engine.POSTGRESQL else f"sqlite:///{self.target}"

    __repr__ = __str__


def read_address(url: str | None = None) -> Address:
    """The address given, or `HOLDFAST_DATABASE`, or a file under `./holdfast-data`.

    Raises:
        AddressInvalid: with the forms that would be understood.
    """
    url = url or os.environ.get(ENVIRONMENT_VARIABLE) or DEFAULT_ADDRESS
    if url.startswith(("postgresql://", "postgres://")):
        return Address(Engine.POSTGRESQL, _to_primary(url))
    if url in {"sqlite://", "sqlite:///:memory:"}:
        return Address(Engine.SQLITE, ":memory:")
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        return Address(Engine.SQLITE, url.removeprefix("sqlite:///"))
    scheme = url.split("://", 1)[0] if "://" in url else _masked(url)
    raise AddressInvalid(
        f"{scheme!r} is no database address; write sqlite:///path/to/file.db or postgresql://user@host/database"
    )


def _to_primary(url: str) -> str:
    # With several hosts only the one that takes writes will do, also after a failover.
    place, _, query = url.split("://", 1)[1].partition("?")
    hosts = place.split("/", 1)[0].rsplit("@", 1)[-1]
    several = "," in hosts or any("," in part for part in query.split("&") if part.startswith(("host=", "hostaddr=")))
    if not several or "target_session_attrs" in query:
        return url
    return f"{url}{'&' if query else '' if '?' in url else '?'}target_session_attrs=read-write"


def _masked(text: str) -> str:
    return _PASSWORD.sub(lambda found: f"{found[1]}:{MASK}@" if found[1] is not None else MASK, text)
