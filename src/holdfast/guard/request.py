"""A request that comes with an idempotency key: what makes it the same one, and which keys are keys."""

from __future__ import annotations

from functools import lru_cache

from holdfast.base import ArgumentInvalid, Json, SecretLeak, digest
from holdfast.base.codec import canonical_json, text_digest, why_no_json
from holdfast.catalog import Failure
from holdfast.catalog.core import BAD_REQUEST
from holdfast.catalog.durable import IDEMPOTENCY_KEY_INVALID
from holdfast.guard.key import KEY_CHARS_MAX

NAME_CHARS_MAX = 200
NAMES_MAX = 1_000


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


def received_hash(*, method: str, path: str, body: Json | bytes) -> str:
    """The same hash for a request that was received, whose body is bytes or came out of `decode`; cheaper."""
    if isinstance(body, bytes):
        return request_hash(method=method, path=path, body=body)
    return text_digest(canonical_json([method.upper(), path, {"json": body}]))


def checked_scope(*, tenant: str, operation: str, key: object) -> None:
    """Let pass what can be stored.

    Raises:
        Failure: IDEMPOTENCY_KEY_INVALID; BAD_REQUEST for the other two.
    """
    if not isinstance(key, str) or not 1 <= len(key) <= KEY_CHARS_MAX or not key.isprintable():
        raise IDEMPOTENCY_KEY_INVALID()
    _check_names(tenant, operation)


@lru_cache(maxsize=NAMES_MAX)
def _check_names(tenant: str, operation: str) -> None:
    """Asked for each request again, of few tenants and operations."""
    if len(tenant) > NAME_CHARS_MAX or not tenant.isprintable():
        raise _unfit("tenant", chars_min=0)
    if not 1 <= len(operation) <= NAME_CHARS_MAX or not operation.isprintable():
        raise _unfit("operation", chars_min=1)


def _unfit(field: str, *, chars_min: int) -> Failure:
    return BAD_REQUEST(
        "{field} has {least} to {most} printable characters.", field=field, least=chars_min, most=NAME_CHARS_MAX
    )
