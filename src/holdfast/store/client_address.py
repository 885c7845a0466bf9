"""The address of the store's database as other clients write it, so that the user's own engine finds the same server.

With several hosts a client that takes the first one may stand on a standby after a failover, where nothing can be
written. Each form here asks for the server that takes writes, and waits no longer for one that hangs than we do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from holdfast.store.address import CONNECTING, Address
from holdfast.store.statements import Engine

if TYPE_CHECKING:
    from psycopg.abc import ConnParam

CLIENTS = ("psycopg", "sqlalchemy")


def client_address(address: Address, client: str) -> str:
    """The address for `psycopg` or `sqlalchemy`, with its password: keep it out of logs.

    Raises:
        ValueError: the client is not one of these.
    """
    if client not in CLIENTS:
        raise ValueError(f"{client!r}: known clients are {' and '.join(CLIENTS)}")
    if address.engine is Engine.SQLITE:
        return f"sqlite:///{address.target}" if client == "sqlalchemy" else address.target
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    parts: dict[str, ConnParam] = {**CONNECTING, **conninfo_to_dict(address.target)}
    return _sqlalchemy(parts) if client == "sqlalchemy" else make_conninfo("", **parts)


def _sqlalchemy(parts: dict[str, ConnParam]) -> str:
    user, password, name = (str(parts.pop(key, "") or "") for key in ("user", "password", "dbname"))
    hosts = str(parts.pop("host", "") or "").split(",")
    ports = str(parts.pop("port", "") or "").split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    places = [f"{host}:{port}" if port else host for host, port in zip(hosts, ports, strict=True)]
    who = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    query = [("host", place) for place in places] if len(places) > 1 else []
    query += [(key, str(value)) for key, value in parts.items()]
    at = f"{who}@" if who else ""
    return f"postgresql+psycopg://{at}{places[0] if len(places) == 1 else ''}/{quote(name)}?{urlencode(query)}"
