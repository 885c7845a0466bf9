"""The scheme `X-GR-Signature: sha256=<hex HMAC-SHA256 of the raw body>`.

It carries no time and no id: a repeat is recognised by the event's id in the body. It has room for one signature, so
that the newest secret signs; while a rotation is under way the receiver tries all it has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from holdfast.base import Secret, world
from holdfast.delivery.signing import (
    HeaderPair,
    RawHeaders,
    SignedHeaders,
    Verified,
    few,
    hmac_sha256,
    key_bytes,
    malformed,
    names_of,
    refused,
    same,
)

HEADER = "X-GR-Signature"
PREFIX = "sha256="
SECRET_BYTES = 32

_HEX = re.compile(r"[0-9a-fA-F]{64}\Z")


class BodyHmac:
    """Signs and verifies the raw body with HMAC-SHA256, in hex."""

    several = False
    asks_nobody = True
    """To verify needs no look at anything else: it may be done on an event loop."""

    def __init__(self, *, header: str = HEADER, prefix: str = PREFIX) -> None:
        self.header = header
        self.prefix = prefix
        self._names = names_of(header)

    def sign(self, body: bytes, *, event_id: str, at_us: int, secrets: Sequence[Secret]) -> tuple[HeaderPair, ...]:
        """The header, made with the newest secret. `event_id` and `at_us` have no place in this scheme."""
        del event_id, at_us
        return ((self.header, self.prefix + hmac_sha256(key_bytes(few(secrets)[0]), body).hex()),)

    def check_secret(self, secret: Secret) -> None:
        """Any text that is not empty will do."""
        key_bytes(secret)

    def new_secret(self) -> Secret:
        """256 bits of chance, in hex."""
        return Secret(world().token_bytes(SECRET_BYTES).hex())

    def verify(self, headers: RawHeaders, body: bytes, *, secrets: Sequence[Secret]) -> Verified:
        """Whether any of the secrets made the signature.

        Raises:
            Failure: INVALID_SIGNATURE_FORMAT, UNAUTHORIZED.
        """
        given = self._given(SignedHeaders(headers, self._names).required(self.header))
        # Every secret is tried, so that the time taken does not tell which one fits.
        if not [True for secret in few(secrets) if same(given, hmac_sha256(key_bytes(secret), body))]:
            raise refused("no secret fits")
        return Verified()

    def _given(self, value: str) -> bytes:
        digits = value.removeprefix(self.prefix)
        if not value.startswith(self.prefix) or not _HEX.match(digits):
            raise malformed(self.header, f"is not {self.prefix}<64 hex digits>")
        return bytes.fromhex(digits)
