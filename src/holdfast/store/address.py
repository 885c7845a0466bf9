"""Where the store is: `sqlite:///path` (or `sqlite://` in memory) and `postgresql://…`.

A PostgreSQL address may name the schema for our tables, `postgresql://app@db/shop?schema=holdfast`, say that a
connection pooler answers there, `?pooled=1`, and limit the time of each call, `?call_timeout_s=15`, and the time that a
caller waits for a server that is away, `?wait_s=1.5`. Everything else after the question mark is for the driver.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from holdfast.base import redacted_text
from holdfast.base.arguments import ArgumentInvalid, shown
from holdfast.store.statements import Engine

DEFAULT_ADDRESS = "sqlite:///./holdfast-data/holdfast.db"
ENVIRONMENT_VARIABLE = "HOLDFAST_DATABASE"
CALL_TIMEOUT_S = 15.0
WAIT_S = 1.5
WAIT_VARIABLE = "HOLDFAST_DATABASE_WAIT_S"
SECONDS_MIN = 0.1

# The loss of a server must be noticed within seconds, not after the minutes that the kernel takes.
CONNECTING: dict[str, str | int] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    # Also behind one address: after a failover a standby may answer there.
    "target_session_attrs": "read-write",
}
"""Parameters for connecting to PostgreSQL, for us and for the user's own engine; the address overrides them."""

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class AddressInvalid(ArgumentInvalid):
    """The address does not name a database that Holdfast can use."""


@dataclass(frozen=True, slots=True)
class Address:
    """A database, read from its URL."""

    engine: Engine
    target: str
    """A path (or `:memory:`) for SQLite, a connection string for PostgreSQL."""
    schema: str | None = None
    """The PostgreSQL schema of our tables; None leaves it to the connection's search path."""
    pooled: bool | None = None
    """Whether the address leads to a pooler such as PgBouncer, which keeps no sessions; None detects it."""
    call_timeout_s: float = CALL_TIMEOUT_S
    """Maximum time for one statement on PostgreSQL; after it the connection is dropped."""
    wait_s: float = WAIT_S
    """Maximum time that a caller waits for a PostgreSQL server that is away."""

    def __str__(self) -> str:
        if self.engine is Engine.SQLITE:
            return f"sqlite:///{self.target}"
        own = [] if self.schema is None else [f"schema={self.schema}"]
        own += [] if self.pooled is None else [f"pooled={self.pooled:d}"]
        own += [] if self.call_timeout_s == CALL_TIMEOUT_S else [f"call_timeout_s={self.call_timeout_s:g}"]
        own += [] if self.wait_s == WAIT_S else [f"wait_s={self.wait_s:g}"]
        return redacted_text(_with_parameters(self.target, own))

    __repr__ = __str__


def read_address(url: str | None = None, *, schema: str | None = None, wait_s: float | None = None) -> Address:
    """The address given, or `HOLDFAST_DATABASE`, or a file under `./holdfast-data`.

    Args:
        schema: the PostgreSQL schema of our tables; it takes precedence over `?schema=` of the address.
        wait_s: maximum time to wait for a server that is away; it takes precedence over `?wait_s=` of the address, and
            that over `HOLDFAST_DATABASE_WAIT_S`.

    Raises:
        AddressInvalid: with the forms that would be understood.
    """
    if url is not None and not isinstance(url, str):
        raise AddressInvalid(
            f"{shown(url)} is not a database address; write sqlite:///path or postgresql://user@host/name"
        )
    url = url or os.environ.get(ENVIRONMENT_VARIABLE) or DEFAULT_ADDRESS
    if url.startswith(("postgresql://", "postgres://")):
        _check_credentials(url)
        url, own = _without(url, "schema", "pooled", "call_timeout_s", "wait_s")
        return Address(
            Engine.POSTGRESQL,
            url,
            _checked_schema(schema or own.get("schema")),
            _pooled(own.get("pooled")),
            _seconds("call_timeout_s", own.get("call_timeout_s"), CALL_TIMEOUT_S),
            _waiting_s(wait_s, own.get("wait_s")),
        )
    if schema is not None:
        raise AddressInvalid("schema: only PostgreSQL has schemas; leave it out, or use a postgresql:// address")
    if url in {"sqlite://", "sqlite:///:memory:"}:
        return Address(Engine.SQLITE, ":memory:")
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        return Address(Engine.SQLITE, url.removeprefix("sqlite:///"))
    # A text that is not an address may hold a password in an unexpected place.
    scheme = url.partition(":")[0] if ":" in url else redacted_text(url)
    raise AddressInvalid(
        f"{scheme!r} is not a database address; write sqlite:///path/to/file.db or postgresql://user@host/database"
    )


def _check_credentials(url: str) -> None:
    """Refuse what the driver would read as another host, and then say in its error.

    Raises:
        AddressInvalid: an @ or a / of a user or a password is written as it is.
    """
    authority, _, path = url.partition("://")[2].partition("?")[0].partition("/")
    if authority.count("@") > 1 or "@" in path:
        raise AddressInvalid("an @ in a user or a password is written %40, a / is written %2F")


def check_postgresql(address: Address) -> None:
    """Refuse what the driver cannot read, before anything connects.

    Raises:
        AddressInvalid: with the reason, and without the password.
    """
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        conninfo_to_dict(address.target)
    except ProgrammingError as wrong:
        raise AddressInvalid(f"{address}: {redacted_text(str(wrong))}") from None


def _with_parameters(url: str, parameters: list[str]) -> str:
    place, _, query = url.partition("?")
    joined = "&".join([*([query] if query else []), *parameters])
    return f"{place}?{joined}" if joined else place


def _without(url: str, *names: str) -> tuple[str, dict[str, str]]:
    """The address without these parameters, and what they said."""
    place, _, query = url.partition("?")
    parameters = [part.partition("=") for part in query.split("&") if part]
    rest = [f"{name}{equals}{value}" for name, equals, value in parameters if name not in names]
    return _with_parameters(place, rest), {name: value for name, _, value in parameters if name in names}


def _pooled(said: str | None) -> bool | None:
    known = {None: None, "1": True, "true": True, "0": False, "false": False}
    if said not in known:
        raise AddressInvalid(f"pooled={said}: write pooled=1 where a pooler answers, pooled=0 where none does")
    return known[said]


def _waiting_s(given: float | None, said: str | None) -> float:
    if given is None and said is None:
        return _seconds(WAIT_VARIABLE, os.environ.get(WAIT_VARIABLE) or None, WAIT_S)
    return _seconds("wait_s", said if given is None else str(given), WAIT_S)


def _seconds(name: str, said: str | None, usual_s: float) -> float:
    try:
        seconds = usual_s if said is None else float(said)
    except ValueError:
        seconds = -1.0
    if not SECONDS_MIN <= seconds < float("inf"):
        raise AddressInvalid(f"{name}={said}: write a number of seconds from {SECONDS_MIN:g} on")
    return seconds


def _checked_schema(schema: str | None) -> str | None:
    if schema is not None and not _SCHEMA.fullmatch(schema):
        raise AddressInvalid(
            f"schema {schema!r}: write 1 to 63 lower-case letters, digits and underscores, not beginning with a digit"
        )
    return schema
