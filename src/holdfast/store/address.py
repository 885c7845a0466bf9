"""Where the store is: `sqlite:///path` (or `sqlite://` in memory) and `postgresql://…`.

A PostgreSQL address may name the schema for our tables: `postgresql://app@db/shop?schema=holdfast`. Everything else
after the question mark is for the driver, `options` included.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from holdfast.base import redacted_text
from holdfast.store.statements import Engine

DEFAULT_ADDRESS = "sqlite:///./holdfast-data/holdfast.db"
ENVIRONMENT_VARIABLE = "HOLDFAST_DATABASE"

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class AddressInvalid(ValueError):
    """The address names no database that Holdfast can use."""


@dataclass(frozen=True, slots=True)
class Address:
    """A database, read from its URL."""

    engine: Engine
    target: str
    """A path (or `:memory:`) for SQLite, a connection string for PostgreSQL."""
    schema: str | None = None
    """The PostgreSQL schema of our tables; None leaves it to the connection's search path."""

    def __str__(self) -> str:
        if self.engine is Engine.SQLITE:
            return f"sqlite:///{self.target}"
        target = self.target if self.schema is None else _with_parameter(self.target, f"schema={self.schema}")
        return redacted_text(target)

    __repr__ = __str__


def read_address(url: str | None = None, *, schema: str | None = None) -> Address:
    """The address given, or `HOLDFAST_DATABASE`, or a file under `./holdfast-data`.

    Args:
        schema: the PostgreSQL schema of our tables; it takes precedence over `?schema=` of the address.

    Raises:
        AddressInvalid: with the forms that would be understood.
    """
    url = url or os.environ.get(ENVIRONMENT_VARIABLE) or DEFAULT_ADDRESS
    if url.startswith(("postgresql://", "postgres://")):
        url, named = _without_schema(url)
        return Address(Engine.POSTGRESQL, _to_primary(url), _checked_schema(schema or named))
    if schema is not None:
        raise AddressInvalid("schema: only PostgreSQL has schemas; leave it out, or use a postgresql:// address")
    if url in {"sqlite://", "sqlite:///:memory:"}:
        return Address(Engine.SQLITE, ":memory:")
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        return Address(Engine.SQLITE, url.removeprefix("sqlite:///"))
    scheme = url.split("://", 1)[0] if "://" in url else redacted_text(url)
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
    return _with_parameter(url, "target_session_attrs=read-write")


def _with_parameter(url: str, parameter: str) -> str:
    place, _, query = url.partition("?")
    return f"{place}?{query}&{parameter}" if query else f"{place}?{parameter}"


def _without_schema(url: str) -> tuple[str, str | None]:
    place, _, query = url.partition("?")
    parameters = query.split("&") if query else []
    named = [part.removeprefix("schema=") for part in parameters if part.startswith("schema=")]
    rest = "&".join(part for part in parameters if not part.startswith("schema="))
    return (f"{place}?{rest}" if rest else place), (named[-1] if named else None)


def _checked_schema(schema: str | None) -> str | None:
    if schema is not None and not _SCHEMA.fullmatch(schema):
        raise AddressInvalid(
            f"schema {schema!r}: write 1 to 63 lower-case letters, digits and underscores, not beginning with a digit"
        )
    return schema
