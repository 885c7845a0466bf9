"""Secrets as they are stored: encrypted under `HOLDFAST_SECRET_KEY`, as they are where no key is set.

The variable holds one key, or several with commas: the first encrypts, all of them decrypt. A stored text names the key
that it was encrypted with. It is bound to its place, so that nobody can move it to another row. To change the key: add
the new one behind the old one everywhere, then put it first, start once, then leave the old one out.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from holdfast.base import Secret, world
from holdfast.catalog.durable import SECRET_UNREADABLE

VARIABLE = "HOLDFAST_SECRET_KEY"
KEY_CHARS_MIN = 32
NONCE_BYTES = 12
MARK = "sealed:1:"
"""What every encrypted text begins with; then the name of its key, and nonce and ciphertext in base64."""


class _Cipher(Protocol):
    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes: ...

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes: ...


class KeyInvalid(ValueError):
    """A key that cannot protect anything, or that cannot be used here."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its name, which may be shown, and what encrypts."""

    name: str
    material: Secret


def keys_of(environment: Mapping[str, str]) -> tuple[Key, ...]:
    """The keys of the variable; none where it is not set.

    Raises:
        KeyInvalid: one of them is too short.
    """
    return _keys(environment.get(VARIABLE, ""))


def seal(secret: Secret, place: str) -> str:
    """The text to store.

    Args:
        place: what it belongs to, such as `webhook_secret:ep_7`; only there it can be read again.

    Raises:
        KeyInvalid: a key is too short, or the package that encrypts is not installed.
    """
    keys = keys_of(os.environ)
    text = secret.reveal()
    if not keys:
        if text.startswith(MARK):
            raise ValueError(f"a secret cannot begin with {MARK!r}")
        return text
    nonce = world().token_bytes(NONCE_BYTES)
    sealed = _cipher(keys[0]).encrypt(nonce, text.encode("utf-8", "surrogatepass"), place.encode())
    return f"{MARK}{keys[0].name}:{urlsafe_b64encode(nonce + sealed).decode()}"


def unseal(stored: str, place: str) -> Secret:
    """The secret of a stored text, encrypted or not.

    Raises:
        Failure: SECRET_UNREADABLE, because its key is missing or it was changed.
    """
    if not stored.startswith(MARK):
        return Secret(stored)
    name, _, rest = stored.removeprefix(MARK).partition(":")
    key = next((one for one in keys_of(os.environ) if one.name == name), None)
    if key is None:
        raise SECRET_UNREADABLE(place=place, key=name, reason="no such key")
    from cryptography.exceptions import InvalidTag

    try:
        whole = urlsafe_b64decode(rest)
        text = _cipher(key).decrypt(whole[:NONCE_BYTES], whole[NONCE_BYTES:], place.encode())
    except (InvalidTag, ValueError):
        raise SECRET_UNREADABLE(place=place, key=name, reason="it was changed or moved") from None
    return Secret(text.decode("utf-8", "surrogatepass"))


def is_current(stored: str) -> bool:
    """Whether it is stored as it would be stored now."""
    keys = keys_of(os.environ)
    return stored.startswith(f"{MARK}{keys[0].name}:") if keys else not stored.startswith(MARK)


@lru_cache(maxsize=8)
def _keys(text: str) -> tuple[Key, ...]:
    import hashlib

    keys = []
    for part in (part.strip() for part in text.split(",")):
        if part and len(part) < KEY_CHARS_MIN:
            raise KeyInvalid(
                f"{VARIABLE}: a key has {KEY_CHARS_MIN} characters or more; openssl rand -base64 32 makes one"
            )
        if part:
            name = hashlib.sha256(b"holdfast secret key name:" + part.encode()).hexdigest()[:8]
            keys.append(Key(name, Secret(part)))
    return tuple(keys)


@lru_cache(maxsize=8)
def _cipher(key: Key) -> _Cipher:
    import hashlib

    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise KeyInvalid(f'{VARIABLE} is set: pip install "holdfast[signing]", which encrypts') from None
    return AESGCM(hashlib.sha256(b"holdfast secret key:" + key.material.reveal().encode()).digest())
