"""What commerce keeps in the store: the schema of all five services, and their statements."""

from __future__ import annotations

from holdfast.store import Store

PACKAGE = "holdfast_systems.commerce"
SYSTEM = "commerce"


def prepare(store: Store) -> None:
    """Bring the schema up to date and read the statements. Safe when many processes start at once."""
    store.migrate(PACKAGE, system=SYSTEM)
    store.load(PACKAGE)
