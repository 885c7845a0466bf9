"""How much anonymous uploads may take up: per session, per address, and all together.

Always true: an upload that would go past a quota is refused before its file is kept, and leaves no row; the same file
again needs no room and is not refused. What is on its way is bounded too, because it lies on the disk while it arrives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from holdfast.base import Secret
from holdfast.catalog import Failure
from holdfast.http.asgi import Scope
from holdfast.http.client_address import address_of, client_group
from holdfast.store import Store, Tx
from holdfast_systems.conversion.faults import QUOTA_EXCEEDED, STORE_FULL
from holdfast_systems.conversion.settings import Settings

RETRY_AFTER_S = 60.0


@dataclass(frozen=True, slots=True)
class Sender:
    """Whose upload it is, and a keyed digest of the address that it comes from."""

    owner: str
    address: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What is here at the moment."""

    session_uploads: int
    session_bytes: int
    address_uploads: int
    address_bytes: int
    store_bytes: int


class Quota:
    """Counts what is on its way and asks the store for what is here. On its way: one event loop, no threads."""

    def __init__(self, store: Store, settings: Settings, secret: Secret) -> None:
        """
        Args:
            secret: the key of the digests of addresses, so that a reader of the table learns no address.
        """
        self._store = store
        self._settings = settings
        self._secret = secret
        self._arriving: Counter[str] = Counter()

    def sender(self, owner: str, scope: Scope) -> Sender:
        """Whose request it is."""
        return Sender(owner, self._digest(self.group(scope)))

    def group(self, scope: Scope) -> str:
        """The client of a request: its address, or its part of IPv6."""
        return client_group(address_of(scope, self._settings.proxies))

    @contextmanager
    def arriving(self, sender: Sender) -> Iterator[None]:
        """An upload is on its way during the block.

        Raises:
            Failure: QUOTA_EXCEEDED, STORE_FULL.
        """
        most = self._settings.uploads_at_once_max
        if self._arriving.total() >= most:
            raise _full("uploads at once", self._arriving.total(), most)
        most = self._settings.address_uploads_at_once_max
        if self._arriving[sender.address] >= most:
            raise _too_many("address", "uploads at once", self._arriving[sender.address], most)
        self._arriving[sender.address] += 1
        try:
            yield
        finally:
            self._arriving[sender.address] -= 1
            self._arriving += Counter()  # those that are at nought are forgotten

    def check(self, sender: Sender, *, more_bytes: int) -> None:
        """Refuse an upload of this size before it is kept.

        Raises:
            Failure: QUOTA_EXCEEDED, STORE_FULL; or the database's own.
        """
        refusal = self._store.atomic(lambda tx: self.refusal(tx, sender, more_bytes=more_bytes), write=False)
        if refusal is not None:
            raise refusal

    def refusal(self, tx: Tx, sender: Sender, *, more_bytes: int) -> Failure | None:
        """Why an upload of this many more bytes is refused; None when it is not."""
        row = tx.row("conversion.usage", owner=sender.owner, address=sender.address)
        assert row is not None
        return judged(Usage(*map(int, row)), self._settings, more_bytes=more_bytes)

    def _digest(self, group: str) -> str:
        import hmac

        return hmac.digest(self._secret.reveal().encode(), f"address:{group}".encode(), "sha256").hex()[:32]


def judged(usage: Usage, settings: Settings, *, more_bytes: int) -> Failure | None:
    """The failure of the quota that an upload of this many more bytes would exceed; None when there is none."""
    if usage.store_bytes + more_bytes > settings.store_bytes_max:
        return _full("bytes", usage.store_bytes, settings.store_bytes_max)
    held = (
        ("session", "uploads", usage.session_uploads, 1, settings.session_uploads_max),
        ("session", "bytes", usage.session_bytes, more_bytes, settings.session_bytes_max),
        ("address", "uploads", usage.address_uploads, 1, settings.address_uploads_max),
        ("address", "bytes", usage.address_bytes, more_bytes, settings.address_bytes_max),
    )
    for whose, what, now, more, most in held:
        if now + more > most:
            return _too_many(whose, what, now, most)
    return None


def _too_many(whose: str, what: str, held: int, most: int) -> Failure:
    return QUOTA_EXCEEDED(whose=whose, what=what, held=held, most=most)


def _full(what: str, held: int, most: int) -> Failure:
    return STORE_FULL(retry_after_s=RETRY_AFTER_S, what=what, held=held, most=most)
