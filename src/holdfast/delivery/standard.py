"""Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`, with HMAC (v1) and ed25519 (v1a).

Signed is `id.timestamp.body`. One request may carry several signatures: while a rotation is under way, each secret in
force makes one, and the receiver needs to know only one of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from holdfast.base import Secret, now_us, world
from holdfast.catalog import Failure
from holdfast.delivery import standard_keys
from holdfast.delivery.faults import SIGNATURE_EXPIRED
from holdfast.delivery.signing import (
    HeaderPair,
    RawHeaders,
    Sign,
    SignedHeaders,
    Verified,
    few,
    malformed,
    names_of,
    refused,
)

TOLERANCE_S = 300.0
SIGNATURES_MAX = 16
SIGNATURE_CHARS_MAX = 128
SECRET_BYTES = 24
PREFIXES = ("webhook", "svix")
PARTS = ("id", "timestamp", "signature")
KEYS_REMEMBERED_MAX = 1_024
SECOND_US = 1_000_000

# A full stop in the id would let a signature fit another split of the same text.
_ID = re.compile(r"[!-\-/-~]{1,255}\Z")
_SECONDS = re.compile(r"[0-9]{1,12}\Z")
_LENGTHS = {"v1": 32, "v1a": 64}


class StandardWebhooks:
    """Signs and verifies as the Standard Webhooks specification says.

    Args:
        tolerance_s: a signature that is older, or further in the future, is refused.
        prefixes: of the headers; the first is used for signing, all are understood.
    """

    several = True
    asks_nobody = True
    """To verify needs no look at anything else: it may be done on an event loop."""

    def __init__(self, *, tolerance_s: float = TOLERANCE_S, prefixes: tuple[str, ...] = PREFIXES) -> None:
        self.tolerance_s = tolerance_s
        self.prefixes = prefixes
        self._named = [tuple(f"{prefix}-{part}" for part in PARTS) for prefix in prefixes]
        """The three headers of each prefix."""
        self._names = names_of(*(name for named in self._named for name in named))

    def sign(self, body: bytes, *, event_id: str, at_us: int, secrets: Sequence[Secret]) -> tuple[HeaderPair, ...]:
        """The three headers, with a signature for every secret.

        Raises:
            SecretInvalid: one of them cannot sign.
            ValueError: the id cannot stand in a header, or has a full stop.
        """
        return self.signing(secrets)(body, event_id, at_us)

    def signing(self, secrets: Sequence[Secret]) -> Sign:
        """The same for many bodies: the keys are read once.

        Raises:
            SecretInvalid: one of them cannot sign.
        """
        made = [standard_keys.maker(_signing_key(secret)) for secret in few(secrets)]
        of_id, of_time, of_signature = (f"{self.prefixes[0]}-{name}" for name in ("id", "timestamp", "signature"))

        def sign(body: bytes, event_id: str, at_us: int) -> tuple[HeaderPair, ...]:
            if not _ID.match(event_id):
                raise ValueError(f"{event_id!r} is not a webhook id: printable ASCII without spaces and full stops")
            seconds = str(at_us // SECOND_US)
            content = _content(event_id, seconds, body)
            signatures = " ".join([make(content) for make in made])
            return (of_id, event_id), (of_time, seconds), (of_signature, signatures)

        return sign

    def check_secret(self, secret: Secret) -> None:
        """Refuse what cannot sign."""
        _signing_key(secret)

    def new_secret(self) -> Secret:
        """A shared secret, `whsec_…`."""
        return Secret(standard_keys.shared_text(world().token_bytes(SECRET_BYTES)))

    def verify(self, headers: RawHeaders, body: bytes, *, secrets: Sequence[Secret]) -> Verified:
        """The id and the time, when any signature fits any secret.

        Raises:
            Failure: INVALID_SIGNATURE_FORMAT, UNAUTHORIZED, SIGNATURE_EXPIRED.
        """
        found = SignedHeaders(headers, self._names)
        (of_id, of_time, of_signature), signature = self._signature(found)
        event_id = found.required(of_id)
        seconds = found.required(of_time)
        if not _ID.match(event_id):
            raise malformed(of_id, "is not an id: printable ASCII without spaces and full stops")
        if not _SECONDS.match(seconds):
            raise malformed(of_time, "is not a whole number of seconds")
        if not signature:
            raise refused(f"there is no {of_signature}")
        given = _given(of_signature, signature)
        content = _content(event_id, seconds, body)
        keys = [_verifying_key(secret) for secret in few(secrets)]
        # Every key tries every signature, so that the time taken does not tell which one fits.
        if not [True for key in keys for made in given if _fits(key, made, content)]:
            raise refused("no signature fits any secret")
        at_us = int(seconds) * SECOND_US
        self._check_time(at_us)
        return Verified(event_id, at_us)

    def _signature(self, found: SignedHeaders) -> tuple[tuple[str, ...], str]:
        """The first signature that is there, and the names of the headers that it belongs to."""
        for named in self._named:
            signature = found.get(named[2])
            if signature is not None:
                return named, signature
        raise refused(f"there is no {self._named[0][2]}")

    def _check_time(self, at_us: int) -> None:
        """Asked last: only who knows the secret is told that the time is wrong."""
        away_s = (now_us() - at_us) / SECOND_US
        # The time is signed in whole seconds, which makes it look up to one second older.
        if not -self.tolerance_s <= away_s < self.tolerance_s + 1:
            raise _expired(away_s, self.tolerance_s)


def _expired(away_s: float, tolerance_s: float) -> Failure:
    return SIGNATURE_EXPIRED(tolerance_seconds=tolerance_s, age_seconds=int(away_s))


def _content(event_id: str, seconds: str, body: bytes) -> bytes:
    return b"%s.%s.%s" % (event_id.encode(), seconds.encode(), body)


def _given(header: str, value: str) -> list[tuple[str, bytes]]:
    """The signatures of the versions that are known here; others are skipped, as the specification wants it."""
    parts = value.split(" ")
    if len(parts) > SIGNATURES_MAX:
        raise malformed(header, f"holds more than {SIGNATURES_MAX} signatures")
    found = []
    for part in parts:
        version, comma, text = part.partition(",")
        if not comma or not version:
            raise malformed(header, "is not <version>,<base64>")
        if version not in _LENGTHS:
            continue
        made = standard_keys.from_base64(text) if len(text) <= SIGNATURE_CHARS_MAX else None
        if made is None or len(made) != _LENGTHS[version]:
            raise malformed(header, f"holds a {version} signature that is not {_LENGTHS[version]} bytes in base64")
        found.append((version, made))
    return found


def _fits(key: standard_keys.Key, made: tuple[str, bytes], content: bytes) -> bool:
    return key[0] == made[0] and standard_keys.fits(key, made[1], content)


# Reading a key takes longer than using it.
_signing_key = lru_cache(KEYS_REMEMBERED_MAX)(standard_keys.signing_key)
_verifying_key = lru_cache(KEYS_REMEMBERED_MAX)(standard_keys.verifying_key)
