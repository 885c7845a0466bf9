"""What the person who starts a server is warned of: who can reach it, who can read its files, and plain secrets."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.base.private_files import open_to_others
from holdfast.cli.listener import listens_on, on_loopback
from holdfast.cli.system_faults import SECRET_KEY_INVALID

if TYPE_CHECKING:
    from holdfast.store import Store


def exposure(listener: socket.socket, address: str | None) -> list[str]:
    """Who can reach it, where that is more than this machine."""
    if on_loopback(listener):
        return []
    where = f"it listens on {listens_on(listener)}, where others can reach it"
    if address is None or not address.startswith("https:"):
        where += "; what they send and get, tokens included, is not encrypted: put a proxy with TLS before it"
    return [where]


def open_folder(data: Path) -> list[str]:
    """That others can read the data folder, where they can."""
    if not open_to_others(data):
        return []
    return [f"other users of this machine may open {data}; chmod 700 closes it"]


def protect_secrets(store: Store, environment: Mapping[str, str]) -> list[str]:
    """Encrypt the stored secrets of webhooks with the key in force, or say that there is none.

    Raises:
        Failure: SECRET_KEY_INVALID; SECRET_UNREADABLE when the key of some is missing.
    """
    from holdfast.delivery.endpoints import Endpoints
    from holdfast.store.sealing import VARIABLE, KeyInvalid, keys_of

    try:
        keys = keys_of(environment)
        Endpoints(store, {}).reseal()
    except KeyInvalid as invalid:
        raise SECRET_KEY_INVALID(problem=str(invalid)) from None
    return [] if keys else [f"{VARIABLE} is not set: webhook secrets are stored as they are"]
