"""`holdfast migrate`: bring the tables up to date."""

from __future__ import annotations

from holdfast.cli.database import AsJson, DatabaseUrl, opened
from holdfast.cli.output import say, say_json

EXAMPLES = (
    ("holdfast migrate", "the database of HOLDFAST_DATABASE, or the embedded file"),
    ("holdfast migrate --database postgresql://app@db/shop", "one on PostgreSQL"),
)


def migrate(database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Bring the tables up to date, and say which migrations ran. Many processes may do this at once."""
    with opened(database, create=True) as store:
        ran = store.migrate()
        if as_json:
            say_json({"database": str(store.address), "ran": ran})
        elif ran:
            say(f"Ran {', '.join(ran)} on {store.address}")
        else:
            say(f"Nothing to do: {store.address} is up to date.")
