"""The tables of the webhook contract under its own names, as views that are only read: for who asks for them.

Nothing else in the database has a name that does not begin with `holdfast_`. So these are created only where the
settings say so, by migrations of their own: once, under the lock of all migrations, and refused where a name is taken.
"""

from __future__ import annotations

from holdfast.store import Store

SYSTEM = "credentials-views"


def create(store: Store) -> None:
    """Create `processed_events` and `webhook_failures` where they are missing. Safe when many processes start at once.

    Raises:
        Failure: TABLE_NAME_TAKEN when the database has something else of one of these names.
    """
    store.migrate(__name__, system=SYSTEM)
