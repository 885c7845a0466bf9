"""A request that comes with an idempotency key: what makes it the same one, and which keys are keys."""

from __future__ import annotations

from holdfast.base import ArgumentInvalid, SecretLeak, digest
from holdfast.base.codec import why_no_json
from holdfast.catalog.core import BAD_REQUEST
from holdfast.catalog.durable import IDEMPOTENCY_KEY_INVALID
from holdfast.guard.key import KEY_CHARS_MAX

NAME_CHARS_MAX = 200


def request_hash(*, method: str = "", path: str = "", body: object = b"") -> str:
    """A hash that is the same for the same request: bytes count as they are, everything else as the JSON it says.

    Raises:
        SecretLeak: the body holds a `Secret`.
        ArgumentInvalid: the body has no JSON form; it says where.
    """
    if not isinstance(body, bytes | bytearray | memoryview):
        try:
            return digest([method.upper(), path, {"json": body}])
        except SecretLeak:
            raise
        except (TypeError, ValueError, RecursionError) as error:
            raise ArgumentInvalid(f"body: {why_no_json(body, error)}") from error
    import hashlib  # loaded when first needed: it maps the crypto library

    return digest([method.upper(), path, {"bytes": hashlib.sha256(body).hexdigest()}])


def checked_scope(*, tenant: str, operation: str, key: object) -> None:
    """Let pass what can be stored.

    Raises:
        Failure: IDEMPOTENCY_KEY_INVALID; BAD_REQUEST for the other two.
    """
    if not isinstance(key, str) or not 1 <= len(key) <= KEY_CHARS_MAX or not key.isprintable():
        raise IDEMPOTENCY_KEY_INVALID()
    for field, value, chars_min in (("tenant", tenant, 0), ("operation", operation, 1)):
        if not chars_min <= len(value) <= NAME_CHARS_MAX or not value.isprintable():
            raise BAD_REQUEST(
                "{field} has {least} to {most} printable characters.",
                field=field,
                least=chars_min,
                most=NAME_CHARS_MAX,
            )
