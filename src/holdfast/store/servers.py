"""The servers of one address, in the order in which new connections try them.

Connecting to a server that hangs takes `connect_timeout`, for each new connection. So the server that accepted the last
connection is tried first, and one that did not answer is tried last. All stores of a process share the order.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from psycopg import Connection as PsycopgConnection

    Connection = PsycopgConnection[tuple[Any, ...]]


class Server(NamedTuple):
    """One of the servers, as the address writes it."""

    host: str
    hostaddr: str
    port: str

    def has(self, connection: Connection) -> bool:
        """Whether the connection leads to it."""
        host, port = connection.pgconn.host.decode(), connection.pgconn.port.decode()
        return host == (self.host or self.hostaddr) and self.port in {"", port}


class Servers:
    """The servers of one address in their present order. Threads may share it."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._order: list[Server] | None = None

    def keywords(self) -> dict[str, str]:
        """The parameters that make a connection try them in this order; none where there is only one server."""
        with self._lock:
            servers = self._servers()
        if len(servers) < 2:
            return {}
        lists = {
            name: ",".join(values) for name, values in zip(Server._fields, zip(*servers, strict=True), strict=True)
        }
        return {name: text for name, text in lists.items() if text.strip(",")}

    def put_first(self, connection: Connection) -> bool:
        """Try the server of a new connection first from now on; returns whether it was not the first before."""
        return self._put(connection, last=False)

    def put_last(self, connection: Connection) -> None:
        """Try the server of this connection last from now on."""
        self._put(connection, last=True)

    def _put(self, connection: Connection, *, last: bool) -> bool:
        from psycopg import OperationalError

        with self._lock:
            servers = self._servers()
            if len(servers) < 2:
                return False
            # The sort is stable, so the others keep their order. Another thread may close the connection.
            with suppress(OperationalError):
                self._order = sorted(servers, key=lambda server: server.has(connection) == last)
            return self._servers() != servers

    def _servers(self) -> list[Server]:
        if self._order is None:
            self._order = _read(self._target)
        return self._order


def _read(target: str) -> list[Server]:
    from psycopg.conninfo import conninfo_to_dict

    chosen = conninfo_to_dict(target)
    lists = [str(chosen.get(name) or "").split(",") for name in Server._fields]
    count = max(map(len, lists))
    # One port holds for all hosts; psycopg refuses lists of other lengths.
    filled = [values * count if len(values) == 1 else values for values in lists]
    return [Server(*parts) for parts in zip(*filled, strict=False)] if {*map(len, filled)} == {count} else []


_shared: WeakValueDictionary[str, Servers] = WeakValueDictionary()
_sharing = threading.Lock()


def servers_of(target: str) -> Servers:
    """The servers of the address; the same object for all stores of this process."""
    with _sharing:
        found = _shared.get(target)
        if found is None:
            found = _shared[target] = Servers(target)
        return found


def _after_fork() -> None:
    """A thread that the child does not have may have held one of the locks."""
    global _shared, _sharing
    _shared, _sharing = WeakValueDictionary(), threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
