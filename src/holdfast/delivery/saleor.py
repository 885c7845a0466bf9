"""Verification of `Saleor-Signature`: HMAC-SHA256 in hex where a secret is set, else a detached JWS (RS256, b64=false).

The public keys come from the origin that the request names, and only if that origin is on the list: a signature by a
stranger's key proves nothing, and a stranger's address must not be fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from holdfast.base import CodecError, Json, Secret, decode
from holdfast.delivery.body_hmac import BodyHmac
from holdfast.delivery.key_sets import Fetch, KeySets, from_base64url
from holdfast.delivery.signing import (
    RawHeaders,
    SignedHeaders,
    Verified,
    malformed,
    names_of,
    refused,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

HEADER = "Saleor-Signature"
API_URL_HEADER = "Saleor-Api-Url"
DOMAIN_HEADER = "Saleor-Domain"
NAMES = names_of(HEADER, API_URL_HEADER, DOMAIN_HEADER)
KEY_ID_CHARS_MAX = 200
JOSE_CHARS_MAX = 1_024
SIGNATURE_BYTES_MAX = 1_024


class SaleorSignature:
    """Verifies what a Saleor shop sends.

    Args:
        origins: the shops whose keys count, as `https://host[:port]`; not needed where a secret is set.
        fetch: reads the body at an address, bounded in size and time.
    """

    def __init__(self, *, origins: Iterable[str] = (), fetch: Fetch | None = None) -> None:
        allowed = frozenset(_origin(url) for url in origins)
        if None in allowed:
            raise ValueError("an origin is http(s)://host[:port]")
        if allowed and fetch is None:
            raise ValueError("origins are of no use without a way to fetch their keys")
        self._hmac = BodyHmac(header=HEADER, prefix="")
        self._key_sets = KeySets(frozenset(filter(None, allowed)), fetch) if fetch is not None else None

    def verify(self, headers: RawHeaders, body: bytes, *, secrets: Sequence[Secret] = ()) -> Verified:
        """Whether the shop made the signature.

        Raises:
            Failure: INVALID_SIGNATURE_FORMAT, UNAUTHORIZED, SIGNING_KEYS_UNAVAILABLE.
        """
        if secrets:
            return self._hmac.verify(headers, body, secrets=secrets)
        found = SignedHeaders(headers, NAMES)
        value = found.required(HEADER)
        protected, _, signature_text = value.partition("..")
        key_id = _key_id(protected)
        signature = from_base64url(signature_text)
        if not signature or len(signature) > SIGNATURE_BYTES_MAX:
            raise malformed(HEADER, "has no signature in base64url after its two full stops")
        content = protected.encode() + b"." + body
        if self._key_sets is None:
            raise refused("no origin is allowed, and no secret is set")
        origin = self._allowed(self._key_sets, found)
        for key in self._key_sets.keys(origin, key_id):
            if _fits(key, signature, content):
                return Verified(sender=origin)
        raise refused("no key of the shop made the signature")

    @staticmethod
    def _allowed(key_sets: KeySets, found: SignedHeaders) -> str:
        """The origin whose keys count for this request."""
        origin = _sender(found)
        if origin is None and len(key_sets.origins) == 1:
            (origin,) = key_sets.origins
        if origin is None or origin not in key_sets.origins:
            raise refused("the request names no origin that is allowed")
        return origin


def _sender(found: SignedHeaders) -> str | None:
    """The origin that the request names; None when it names none."""
    address = found.get(API_URL_HEADER)
    if address:
        return _origin(address) or ""
    domain = found.get(DOMAIN_HEADER)
    return None if not domain else _origin(f"https://{domain}") or ""


def _origin(address: str) -> str | None:
    """`scheme://host[:port]` of an address, in one spelling; None where it is none."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None or "\\" in address:
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    usual = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{host}" + ("" if port in {None, usual} else f":{port}")


def _key_id(protected: str) -> str | None:
    """The key that the header of the JWS names; everything else in it must be what is expected."""
    text = from_base64url(protected) if 0 < len(protected) <= JOSE_CHARS_MAX else None
    if text is None:
        raise malformed(HEADER, "is not a detached JWS")
    try:
        jose: Json = decode(text)
    except CodecError:
        raise malformed(HEADER, "has a header that is not JSON") from None
    if not isinstance(jose, dict) or jose.get("alg") != "RS256" or jose.get("b64") is not False:
        raise malformed(HEADER, "is not RS256 with b64=false")
    if jose.get("crit") != ["b64"]:
        raise malformed(HEADER, "has a crit that is not understood")
    key_id = jose.get("kid")
    if key_id is not None and not (isinstance(key_id, str) and 0 < len(key_id) <= KEY_ID_CHARS_MAX):
        raise malformed(HEADER, "has a kid that is not a name")
    return key_id


def _fits(key: RSAPublicKey, signature: bytes, content: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    try:
        key.verify(signature, content, PKCS1v15(), SHA256())
    except InvalidSignature:
        return False
    return True
