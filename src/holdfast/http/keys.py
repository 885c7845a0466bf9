"""API keys: hashed at rest, with a prefix that may be shown, an end, and a revocation that counts at once in the
process that revokes, and within a second in every other.

A key is `brand_` and 32 letters and digits. The first eight of them find the row and may be shown; the other 24 are
the secret (142 bits, so that a plain hash is enough). What was found in the store is remembered for half a second.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.base import Secret, limits, monotonic_s, new_id, utc_text, world
from holdfast.base.arguments import number
from holdfast.catalog.failure import Failure
from holdfast.http.faults import API_KEY_EXPIRED, INVALID_API_KEY

if TYPE_CHECKING:
    from holdfast.store import Row, Store, Tx

BRAND = "hf"
REMEMBERED_S = 0.5
REMEMBERED_MAX = 10_000
PREFIX_CHARS = 8
KEY_CHARS = 32
ISSUE_TRIES = 5
NAME_CHARS_MAX = 200
EXPIRES_S_MAX = 100 * 365 * 86_400.0
NOBODYS_HASH = "0" * 64

_revocations = 0
"""How often this process has revoked a key; what was found out before the last time is not believed."""

_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SHAPE = re.compile(
    rf"([a-z][a-z0-9]{{0,15}}_[0-9A-Za-z]{{{PREFIX_CHARS}}})[0-9A-Za-z]{{{KEY_CHARS - PREFIX_CHARS}}}\Z"
)
_BRAND = re.compile(r"[a-z][a-z0-9]{0,15}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as it may be shown."""

    id: str
    prefix: str
    name: str
    tenant: str
    expires_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A key before it is stored."""

    id: str
    prefix: str
    name: str
    tenant: str
    expires_us: int | None
    """How long it will be in force; None is for ever."""
    secret: Secret


@dataclass(frozen=True, slots=True)
class Issued:
    """A new key, and the only time that its text is there to be read."""

    key: ApiKey
    secret: Secret


@dataclass(frozen=True, slots=True)
class Known:
    """What the store says about a key: whose it is, or why it is refused."""

    key: ApiKey | None
    refusal: Callable[[], Failure] | None = None


class ApiKeys:
    """API keys on a store. Threads may share it."""

    def __init__(self, store: Store, *, brand: str = BRAND) -> None:
        """
        Args:
            brand: what every key begins with, so that a leaked one can be recognised.
        """
        if not _BRAND.match(brand):
            raise ValueError(f"{brand!r} is not a brand: a letter, then up to 15 letters and digits, all lower case")
        self._store = store
        self._brand = brand
        self._remembered: dict[bytes, tuple[float, int, Known]] = {}

    def issue(self, name: str, *, tenant: str = "", expires_s: float | None = None) -> Issued:
        """A new key; only its hash is stored.

        Raises:
            ValueError: the name or the tenant cannot be stored, or the key would have expired already, or never would.
        """
        for _ in range(ISSUE_TRIES):
            draft = self.draft(name, tenant=tenant, expires_s=expires_s)
            issued = self._store.atomic(lambda tx, draft=draft: self.insert(tx, draft))  # type: ignore[misc]
            if issued is not None:
                return issued
        raise RuntimeError("no free prefix was found")

    def draft(self, name: str, *, tenant: str = "", expires_s: float | None = None) -> Draft:
        """A key that is not stored yet.

        Raises:
            ValueError: as `issue`.
        """
        if not (_is_text(name) and name) or not _is_text(tenant):
            raise ValueError(f"a name has 1 to {NAME_CHARS_MAX} printable characters, a tenant as many at most")
        if expires_s is not None:
            number("expires_s", expires_s, above=0, most=EXPIRES_S_MAX, otherwise="None for a key that never expires")
        text = f"{self._brand}_{_letters(KEY_CHARS)}"
        return Draft(
            id=new_id(),
            prefix=text[: len(self._brand) + 1 + PREFIX_CHARS],
            name=name,
            tenant=tenant,
            expires_us=None if expires_s is None else max(1, int(expires_s * 1_000_000)),
            secret=Secret(text),
        )

    def insert(self, tx: Tx, draft: Draft) -> Issued | None:
        """Store a key, as part of a transaction; None when its prefix is taken."""
        made = tx.row(
            "api_key.issue",
            id=draft.id,
            prefix=draft.prefix,
            hash=_digest(draft.secret.reveal()).hex(),
            name=draft.name,
            tenant=draft.tenant,
            expires_us=draft.expires_us,
        )
        if made is None:
            return None
        tx.run("api_key.note", subject=_subject(draft.id), verb="api_key.issued")
        shown = ApiKey(id=draft.id, prefix=draft.prefix, name=draft.name, tenant=draft.tenant, expires_us=made[0])
        return Issued(shown, draft.secret)

    def revoke(self, key_id: str) -> bool:
        """Refuse the key from now on, in other processes within a second; False when it was not in force.

        Every `ApiKeys` of this process refuses it as soon as this returns.
        """
        return self._store.atomic(lambda tx: self.revoke_within(tx, key_id), repeatable=True)

    def revoke_within(self, tx: Tx, key_id: str) -> bool:
        """`revoke` as part of a transaction."""
        revoked = tx.row("api_key.revoke", id=key_id) is not None
        if revoked:
            tx.run("api_key.note", subject=_subject(key_id), verb="api_key.revoked")
        tx.after_commit.append(_forget)
        return revoked

    def list(self, *, tenant: str | None = "", after: str = "", count: int = 100) -> list[dict[str, Any]]:
        """The keys of a tenant (None: of all tenants), oldest first, a page at a time; no hashes."""
        most = max(1, min(count, limits().page_rows_max))
        return self._store.atomic(
            lambda tx: tx.records("api_key.list", tenant=tenant, after=after, count=most), write=False
        )

    def check(self, text: str) -> ApiKey:
        """The key that this text is.

        Raises:
            Failure: INVALID_API_KEY when it is none or was revoked, API_KEY_EXPIRED; or the database's own.
        """
        known = self.remembered(text) or self.look(text)
        if known.refusal is not None:
            raise known.refusal()
        assert known.key is not None
        return known.key

    def remembered(self, text: str) -> Known | None:
        """What was found out about this text a moment ago, without asking the store."""
        found = self._remembered.get(_digest(text))
        if found is None or found[1] != _revocations or monotonic_s() >= found[0]:
            return None
        return found[2]

    def look(self, text: str) -> Known:
        """What the store says about this text.

        Raises:
            Failure: the database's own; nobody is let in on what cannot be looked up.
        """
        shaped = _SHAPE.match(text)
        if shaped is None:
            return Known(None, INVALID_API_KEY)
        prefix = shaped[1]
        # The end is counted from before the question: an answer is never older than it says.
        until_s, revocations = monotonic_s() + REMEMBERED_S, _revocations
        row = self._store.atomic(lambda tx: tx.row("api_key.find", prefix=prefix), write=False)
        known = _judged(prefix, row, _digest(text).hex())
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[_digest(text)] = until_s, revocations, known
        return known


def _forget() -> None:
    """Believe nothing that was found out before now, in any `ApiKeys` of this process."""
    global _revocations
    _revocations += 1


def _judged(prefix: str, row: Row | None, hashed: str) -> Known:
    import hmac  # loaded when first needed: it maps the crypto library

    # A prefix that nobody has is compared too, so that time tells nothing about which ones exist.
    same = hmac.compare_digest(row[1] if row is not None else NOBODYS_HASH, hashed)
    if row is None or not same:
        return Known(None, INVALID_API_KEY)
    key_id, _, name, tenant, expires_us, revoked, expired = row
    if revoked:
        return Known(None, INVALID_API_KEY)
    if expired:
        expired_at = utc_text(expires_us)
        return Known(None, lambda: API_KEY_EXPIRED(expired_at=expired_at))
    return Known(ApiKey(id=key_id, prefix=prefix, name=name, tenant=tenant, expires_us=expires_us))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= NAME_CHARS_MAX and value.isprintable()


def _digest(text: str) -> bytes:
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _letters(count: int) -> str:
    """Letters and digits, each as likely as the others."""
    chosen: list[str] = []
    while len(chosen) < count:
        chosen += [_LETTERS[byte] for byte in (one & 63 for one in world().token_bytes(count)) if byte < len(_LETTERS)]
    return "".join(chosen[:count])


def _subject(key_id: str) -> str:
    return f"api_key:{key_id}"
