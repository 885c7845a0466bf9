"""Which database a connection goes to, so that none is joined that goes to another one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from holdfast.base import Private
from holdfast.catalog.core import DATABASE_CONNECTION_ERROR
from holdfast.catalog.failure import UNREACHABLE, Failure
from holdfast.store.join.connection import JoinRefused
from holdfast.store.join.stale import JoinedConnections
from holdfast.store.statements import Engine

if TYPE_CHECKING:
    from holdfast.store.address import Address
    from holdfast.store.transaction import Tx

MEMORY = ":memory:"
JOBS = "holdfast_job"


class Place(NamedTuple):
    """A PostgreSQL database: two are the same if everything here is."""

    started_us: int
    """When the server was started: no two servers share that, nor do a server and its copy."""
    database_oid: int
    jobs_oid: int | None
    """Our own table, as the connection finds it by its search path."""
    database: str
    host: str | None
    port: int | None

    def __str__(self) -> str:
        where = "a local socket" if self.host is None else f"{self.host}:{self.port}"
        return f"database {self.database!r} at {where}"

    def is_same(self, other: Place) -> bool:
        return self[:3] == other[:3]


class Member(NamedTuple):
    """A server of a cluster."""

    identifier: str
    is_standby: bool


class Identity:
    """Compares connections of the user's with the store's own database; each connection once."""

    def __init__(
        self, address: Address, look: Callable[..., list[tuple[object, ...]]], leave: Callable[[], None]
    ) -> None:
        """
        Args:
            look: runs one statement on the store's own database.
            leave: drops the store's connections, so that new ones lead to the server that accepts writes.
        """
        self._address = address
        self._look = look
        self._leave = leave
        self._jobs = JOBS if address.schema is None else f"{address.schema}.{JOBS}"
        self._lock = threading.Lock()
        self._own: Place | None = None
        self._joined = JoinedConnections(address.target, lambda: self._looked_up().started_us)

    def check(self, tx: Tx, driver: object) -> None:
        """Let pass a connection to the store's own database.

        Raises:
            JoinRefused: it goes elsewhere; with both places.
            Failure: it goes to another server of the same cluster; retryable, because a failover may be in progress.
        """
        if self._address.engine is Engine.SQLITE:
            self._check_file(tx)
            return
        if driver in self._joined:
            return
        (row,) = tx.rows("store.place", jobs=self._jobs)
        place = Place(*row)
        self._check_place(place, tx)
        self._joined.add(driver, place.started_us)

    def server_changed(self) -> None:
        """Another server is in use now: close the joined connections to all others."""
        self._joined.end_stale()

    def close(self) -> None:
        """The store is closed."""
        self._joined.close()

    def _check_file(self, tx: Tx) -> None:
        file = next(str(row[2] or "") for row in tx.rows("store.files") if row[1] == "main")
        if self._address.target == MEMORY:
            raise JoinRefused(
                "the store is in memory, where no connection but its own reaches it; open it on a file to join"
            )
        if not file or not _is_same_file(file, self._address.target):
            raise JoinRefused(_elsewhere(file or "a database in memory", os.path.abspath(self._address.target)))

    def _check_place(self, theirs: Place, tx: Tx) -> None:
        # The server may have been started again, or another one have taken over, since this was last looked up.
        own = self._own
        if own is None or not own.is_same(theirs):
            own = self._looked_up()
        if own.started_us != theirs.started_us and (copy := self._copy(tx)) is not None:
            if not copy.is_standby:
                own = self._looked_up_anew(own)
            if own.started_us != theirs.started_us:
                why = _on_two_servers(str(theirs), str(own))
                raise Failure(DATABASE_CONNECTION_ERROR, details={UNREACHABLE: Private(why)}) from JoinRefused(why)
        if own[:2] != theirs[:2]:
            raise JoinRefused(_elsewhere(str(theirs), str(own)))
        if own.jobs_oid != theirs.jobs_oid:
            found = "does not find the table" if theirs.jobs_oid is None else "finds another table"
            raise JoinRefused(
                f"the connection to {theirs} {found} {self._jobs} by its search_path; open the store with schema=…, so "
                "that both mean the same tables"
            )

    def _looked_up(self) -> Place:
        (row,) = self._look("store.place", jobs=self._jobs)
        self._own = Place(*row)  # type: ignore[arg-type]  # as the statement says
        return self._own

    def _looked_up_anew(self, before: Place) -> Place:
        """The same on new connections: those that were open before may still lead to the old leader."""
        with self._lock:
            first = self._own == before
            if first:
                self._own = None
        if first:
            self._leave()
        return self._looked_up()

    def _copy(self, tx: Tx) -> Member | None:
        """The connection's server, if it belongs to the same cluster as the store's; else None."""
        try:
            (own,) = self._look("store.cluster")
        except Failure:
            return None  # this database does not say
        (row,) = tx.rows("store.cluster")
        theirs = Member(*row)
        return theirs if theirs.identifier == own[0] else None


def _is_same_file(one: str, other: str) -> bool:
    try:
        return os.path.samestat(os.stat(one), os.stat(other))
    except OSError:
        return False


def _elsewhere(theirs: str, own: str) -> str:
    return (
        f"the connection goes to {theirs}, the store to {own}: what is written there would not commit with what is "
        "written here; connect to the store's own database"
    )


def _on_two_servers(theirs: str, own: str) -> str:
    return (
        f"the connection goes to {theirs}, the store to {own}, another server of the same cluster: what is written on "
        "both would not commit together; after a failover, connections to the old leader have to be made anew"
    )
