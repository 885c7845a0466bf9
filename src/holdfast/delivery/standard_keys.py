"""The keys of Standard Webhooks: `whsec_` (shared secret), `whsk_` and `whpk_` (the halves of an ed25519 pair)."""

from __future__ import annotations

import binascii
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.base import Secret
from holdfast.delivery.signing import SecretInvalid, hmac_sha256, same

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SHARED = "whsec_"
PRIVATE = "whsk_"
PUBLIC = "whpk_"
SHARED_BYTES_MIN = 16
SHARED_BYTES_MAX = 512
SEED_BYTES = 32

Key = tuple[str, Any]
"""The version of the signatures that it makes, and the key itself."""


def shared_text(chance: bytes) -> str:
    """A shared secret as people see it."""
    return SHARED + binascii.b2a_base64(chance, newline=False).decode()


def signing_key(secret: Secret) -> Key:
    """The key to sign with.

    Raises:
        SecretInvalid: it is none, or one that can only verify.
    """
    text = secret.reveal()
    if text.startswith(PUBLIC):
        raise SecretInvalid("a public key (whpk_) verifies; the signature is made with the secret one (whsk_)")
    return ("v1a", _private(text)) if text.startswith(PRIVATE) else ("v1", _shared(text))


def verifying_key(secret: Secret) -> Key:
    """The key to verify with: a shared secret, a public key, or the public half of a private one.

    Raises:
        SecretInvalid: it is none of these.
    """
    text = secret.reveal()
    if text.startswith(PUBLIC):
        return "v1a", _public(text)
    if text.startswith(PRIVATE):
        return "v1a", _private(text).public_key()
    return "v1", _shared(text)


def maker(key: Key) -> Callable[[bytes], str]:
    """What makes a signature of a content, as the header writes it."""
    version, held = key
    if version == "v1":
        import hmac

        begun = hmac.new(held, digestmod="sha256")

        def make(content: bytes) -> str:
            one = begun.copy()  # the key is read already, which is half of the work
            one.update(content)
            return f"v1,{binascii.b2a_base64(one.digest(), newline=False).decode()}"

        return make
    return lambda content: f"{version},{binascii.b2a_base64(held.sign(content), newline=False).decode()}"


def fits(key: Key, given: bytes, content: bytes) -> bool:
    """Whether the key, or its other half, made the signature."""
    version, held = key
    if version == "v1":
        return same(given, hmac_sha256(held, content))
    from cryptography.exceptions import InvalidSignature

    try:
        held.verify(given, content)
    except InvalidSignature:
        return False
    return True


def from_base64(text: str) -> bytes | None:
    """The bytes, with or without padding; None where it is not base64."""
    if not text.isascii():
        return None
    bare = text.rstrip("=")
    if len(text) - len(bare) > 2 or len(bare) % 4 == 1:
        return None
    try:
        return binascii.a2b_base64(bare + "=" * (-len(bare) % 4), strict_mode=True)
    except binascii.Error:
        return None


def _shared(text: str) -> bytes:
    key = from_base64(text.removeprefix(SHARED))
    if key is None or not SHARED_BYTES_MIN <= len(key) <= SHARED_BYTES_MAX:
        raise SecretInvalid(f"a shared secret is {SHARED}<base64 of {SHARED_BYTES_MIN} to {SHARED_BYTES_MAX} bytes>")
    return key


def _private(text: str) -> Ed25519PrivateKey:
    held = from_base64(text.removeprefix(PRIVATE))
    # Some tools write the seed alone, others the seed and the public key behind it.
    if held is None or len(held) not in {SEED_BYTES, 2 * SEED_BYTES}:
        raise SecretInvalid(f"a secret key is {PRIVATE}<base64 of 32 or 64 bytes>")
    private = _ed25519().Ed25519PrivateKey.from_private_bytes(held[:SEED_BYTES])
    if len(held) > SEED_BYTES and private.public_key().public_bytes_raw() != held[SEED_BYTES:]:
        raise SecretInvalid("the two halves of the secret key do not belong together")
    return private  # type: ignore[no-any-return]


def _public(text: str) -> Ed25519PublicKey:
    held = from_base64(text.removeprefix(PUBLIC))
    if held is None or len(held) != SEED_BYTES:
        raise SecretInvalid(f"a public key is {PUBLIC}<base64 of 32 bytes>")
    return _ed25519().Ed25519PublicKey.from_public_bytes(held)  # type: ignore[no-any-return]


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as missing:
        raise SecretInvalid('ed25519 needs the package cryptography: pip install "holdfast[signing]"') from missing
    return ed25519
