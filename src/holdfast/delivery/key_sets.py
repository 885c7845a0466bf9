"""Public keys that others publish (JWKS), kept for a while.

A key that is not known is looked for again, but not at every request: who sends made-up key ids cannot make us fetch
more often than once in `again_s`. When the place does not answer, the keys fetched last serve on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.base import CodecError, Json, Private, decode, monotonic_s
from holdfast.catalog import Failure
from holdfast.delivery.faults import SIGNING_KEYS_UNAVAILABLE
from holdfast.delivery.signing import SecretInvalid

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

PATH = "/.well-known/jwks.json"
KEEP_S = 600.0
AGAIN_S = 30.0
SET_BYTES_MAX = 65_536
KEYS_MAX = 32
RSA_BITS = range(2_048, 8_193)
EXPONENT_MAX = 2**32

Fetch = Callable[[str], bytes]
"""Reads the body at an address, bounded in size and time; whatever it raises means that there are no keys now."""


@dataclass(frozen=True, slots=True)
class _Set:
    keys: Mapping[str, RSAPublicKey]
    tried_s: float
    fetched_s: float | None


class KeySets:
    """The RSA keys of allowed origins. Threads may share it."""

    def __init__(
        self, origins: frozenset[str], fetch: Fetch, *, keep_s: float = KEEP_S, again_s: float = AGAIN_S
    ) -> None:
        """
        Args:
            origins: `scheme://host[:port]`, exactly; nothing is ever fetched from elsewhere.
        """
        self.origins = origins
        self._fetch = fetch
        self._keep_s = keep_s
        self._again_s = again_s
        self._sets: dict[str, _Set] = {}
        self._locks = {origin: threading.Lock() for origin in origins}

    def keys(self, origin: str, key_id: str | None) -> list[RSAPublicKey]:
        """The keys that may have signed: the one of this id, or all when the signature names none.

        Raises:
            KeyError: the origin is not allowed.
            Failure: SIGNING_KEYS_UNAVAILABLE when none were ever had and none can be had now.
        """
        with self._locks[origin]:
            held = self._sets.get(origin)
            if held is None or self._worth_a_look(held, key_id):
                held = self._sets[origin] = self._renewed(origin, held)
        if held.fetched_s is None:
            raise _unavailable(origin, "the last try failed")
        if key_id is None:
            return list(held.keys.values())
        return [held.keys[key_id]] if key_id in held.keys else []

    def _worth_a_look(self, held: _Set, key_id: str | None) -> bool:
        now_s = monotonic_s()
        if now_s - held.tried_s < self._again_s:
            return False
        old = held.fetched_s is None or now_s - held.fetched_s >= self._keep_s
        return old or (key_id is not None and key_id not in held.keys)

    def _renewed(self, origin: str, held: _Set | None) -> _Set:
        now_s = monotonic_s()
        try:
            return _Set(_read(self._fetch(origin + PATH)), now_s, now_s)
        except SecretInvalid:
            raise
        except Exception as error:  # the fetcher is the caller's own: whatever it raises, there are no keys
            if held is None or held.fetched_s is None:
                self._sets[origin] = _Set({}, now_s, None)
                raise _unavailable(origin, f"{type(error).__name__}: {error}") from error
            return _Set(held.keys, now_s, held.fetched_s)


def _unavailable(origin: str, reason: str) -> Failure:
    return SIGNING_KEYS_UNAVAILABLE(retry_after_s=AGAIN_S, origin=Private(origin), reason=Private(reason))


def _read(document: bytes) -> dict[str, RSAPublicKey]:
    """The usable keys of a set, by their ids.

    Raises:
        ValueError: it is not a key set.
    """
    found = decode(document, bytes_max=SET_BYTES_MAX)
    listed = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise CodecError("syntax", "this is not a key set")
    keys = {}
    for number, entry in enumerate(listed):
        key = _rsa_key(entry) if isinstance(entry, dict) else None
        if key is not None:
            keys[str(entry.get("kid", f"#{number}"))] = key
    return keys


def _rsa_key(entry: dict[str, Json]) -> RSAPublicKey | None:
    """A key for RS256 signatures; None for one of another sort."""
    if entry.get("kty") != "RSA" or entry.get("use", "sig") != "sig" or entry.get("alg", "RS256") != "RS256":
        return None
    modulus, exponent = _number(entry.get("n")), _number(entry.get("e"))
    if modulus.bit_length() not in RSA_BITS or not (3 <= exponent <= EXPONENT_MAX and exponent % 2):
        return None
    try:
        key: RSAPublicKey = _rsa().RSAPublicNumbers(exponent, modulus).public_key()
    except ValueError:
        return None
    return key


def _number(text: object) -> int:
    """A whole number in base64url; 0 where it is none."""
    made = from_base64url(text) if isinstance(text, str) else None
    return int.from_bytes(made) if made else 0


def from_base64url(text: str) -> bytes | None:
    """The bytes of unpadded base64url; None where it is none."""
    from holdfast.delivery.standard_keys import from_base64

    if "=" in text or "+" in text or "/" in text:
        return None
    return from_base64(text.replace("-", "+").replace("_", "/"))


def _rsa() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import rsa
    except ImportError as missing:
        raise SecretInvalid('RS256 needs the package cryptography: pip install "holdfast[signing]"') from missing
    return rsa
