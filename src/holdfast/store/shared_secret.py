"""Secrets that all processes of a store share, such as what signs session cookies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.base import Secret, world
from holdfast.store.sealing import is_current, seal, unseal

if TYPE_CHECKING:
    from holdfast.store.store import Store
    from holdfast.store.transaction import Tx

SECRET_BYTES = 32


def shared_secret(store: Store, name: str, make: Callable[[], Secret] | None = None) -> Secret:
    """The secret of this name: made by the process that asks first, the same for all, encrypted as `sealing` says.

    Args:
        name: begins with the name of a system, such as `conversion:session`.
        make: makes it; without it, 32 bytes of chance in hex.

    Raises:
        Failure: SECRET_UNREADABLE; or the database's own.
    """
    made = Secret(world().token_bytes(SECRET_BYTES).hex()) if make is None else make()
    place = f"secret:{name}"

    def phase(tx: Tx) -> Secret:
        tx.run("secret.keep", name=name, value=seal(made, place))
        found = tx.row("secret.find", name=name)
        assert found is not None
        secret = unseal(found[0], place)
        if not is_current(found[0]):
            tx.run("secret.reseal", name=name, value=seal(secret, place), stored=found[0])
        return secret

    return store.atomic(phase, repeatable=True)
