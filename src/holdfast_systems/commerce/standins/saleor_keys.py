"""How the stand-in of the shop signs: a detached JWS (RS256, b64=false) by a key of its own, or an HMAC."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast.base import Secret, encode, new_id

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

BITS = 2_048
EXPONENT = 65_537


class ShopKeys:
    """One key for the life of the process, made when it is first needed."""

    def __init__(self, secret: Secret) -> None:
        self._secret = secret
        self._id = new_id()

    def signature(self, body: bytes) -> str:
        """The value of `Saleor-Signature`."""
        if self._secret:
            return hmac.new(self._secret.reveal().encode(), body, "sha256").hexdigest()
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.hashes import SHA256

        jose = {"alg": "RS256", "typ": "JWT", "kid": self._id, "b64": False, "crit": ["b64"]}
        protected = _base64url(encode(jose).encode())
        return f"{protected}..{_base64url(self._key.sign(f'{protected}.'.encode() + body, PKCS1v15(), SHA256()))}"

    def published(self) -> dict[str, Any]:
        """The key set that everybody may read."""
        numbers = self._key.public_key().public_numbers()
        modulus = numbers.n.to_bytes(BITS // 8)
        exponent = numbers.e.to_bytes(3)
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self._id}
        return {"keys": [{**key, "n": _base64url(modulus), "e": _base64url(exponent)}]}

    @cached_property
    def _key(self) -> RSAPrivateKey:
        from cryptography.hazmat.primitives.asymmetric import rsa

        return rsa.generate_private_key(public_exponent=EXPONENT, key_size=BITS)


def _base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
