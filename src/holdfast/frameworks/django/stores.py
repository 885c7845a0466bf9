"""The store in Django's own database: the same file, or the same PostgreSQL database with the same rights."""

from __future__ import annotations

import threading
from typing import Any
from urllib.parse import quote, urlencode

from holdfast.guard import Keys
from holdfast.store import Store
from holdfast.worker import Jobs

DEFAULT_ALIAS = "default"
PARAMETERS = frozenset({"sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "options", "service"})
"""The options of a PostgreSQL database of Django's that the store's own connections take over."""

_lock = threading.Lock()
_stores: dict[str, Store] = {}
_jobs: dict[str, Jobs] = {}


class DatabaseUnsuitable(ValueError):
    """The database of Django's cannot hold the store: with what would do."""


def store(alias: str = DEFAULT_ALIAS) -> Store:
    """The store in the database of this alias; one for each process.

    Raises:
        DatabaseUnsuitable: it is neither PostgreSQL nor a file of SQLite.
    """
    from django.db import connections

    address = address_of(connections[alias].settings_dict, connections[alias].vendor)
    with _lock:
        # By address: the databases of tests have the aliases of the real ones.
        found = _stores.get(address)
        if found is None:
            found = _stores[address] = Store.open(address)
        return found


def jobs(alias: str = DEFAULT_ALIAS) -> Jobs:
    """The jobs of that store: `jobs().enqueue("mail.send", tx=store().join(connection))`."""
    here = store(alias)
    with _lock:
        found = _jobs.get(alias)
        if found is None or found.store is not here:
            found = _jobs[alias] = Jobs(here)
        return found


def keys(alias: str = DEFAULT_ALIAS) -> Keys:
    """The idempotency keys of that store, with the usual settings."""
    return Keys(store(alias))


def is_served(alias: str) -> bool:
    """Whether the database of this alias can hold the store."""
    try:
        store(alias)
    except DatabaseUnsuitable:
        return False
    return True


def address_of(settings: dict[str, Any], vendor: str) -> str:
    """The address of a database, from Django's settings of it.

    Raises:
        DatabaseUnsuitable: it is neither PostgreSQL nor a file of SQLite.
    """
    name = str(settings["NAME"])
    if vendor == "sqlite" and name != ":memory:" and "mode=memory" not in name and not name.startswith("file:"):
        return f"sqlite:///{name}"
    if vendor == "postgresql":
        given = {key: str(value) for key, value in settings.get("OPTIONS", {}).items() if key in PARAMETERS}
        named = {"user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
        given |= {key: str(settings[field]) for key, field in named.items() if settings.get(field)}
        return f"postgresql:///{quote(name, safe='')}?{urlencode(given, quote_via=quote)}"
    raise DatabaseUnsuitable(
        f"the store cannot stand in a {vendor} database named {name!r}: use PostgreSQL or a file of SQLite; for tests "
        'on SQLite name a file, DATABASES["default"]["TEST"] = {"NAME": "test.sqlite3"}'
    )
