"""What can go wrong at the edge: the catalog of inbound requests, which extends the core's.

A system's catalog that has one of these codes wins with its own words; one that says the same under another code
names it in the edge's `remap`.
"""

from __future__ import annotations

from holdfast.catalog.catalog import Catalog
from holdfast.catalog.core import CORE
from holdfast.catalog.fault import Blame

EDGE_FAULTS = Catalog("holdfast.edge", docs="/errors/", extends=(CORE,))
_fault = EDGE_FAULTS.fault

VALIDATION_ERROR = _fault(
    "VALIDATION_ERROR",
    status=400,
    says="Request validation failed",
    causes=("a required field is missing", "a value has the wrong type, format or range"),
    remedy="Correct every field that the details list, then send the request again.",
    examples=(
        {
            "errors": [
                {"field": "email", "value": "invalid-email", "constraint": "format", "message": "Not an address"}
            ],
            "total_errors": 1,
        },
    ),
    related=("INVALID_JSON",),
)
INVALID_JSON = _fault(
    "INVALID_JSON",
    status=400,
    says="The body is not JSON that we accept.",
    causes=("a syntax error", "a key that stands twice in one object", "nesting that is too deep", "bad UTF-8"),
    remedy="The details name the reason; correct the body.",
    examples=({"reason": "duplicate_key", "explanation": "the key 'amount' stands twice in one object"},),
    related=("VALIDATION_ERROR", "PAYLOAD_TOO_LARGE"),
)
INVALID_API_KEY = _fault(
    "INVALID_API_KEY",
    status=401,
    says="The provided API key is invalid or expired",
    causes=("a misspelt key", "the key was revoked"),
    remedy="Send a valid key as `Authorization: Bearer …` or `X-Api-Key`.",
    related=("API_KEY_EXPIRED", "UNAUTHORIZED"),
)
API_KEY_EXPIRED = _fault(
    "API_KEY_EXPIRED",
    status=401,
    says="API key has expired and needs renewal",
    causes=("the key's time is over",),
    remedy="Issue a new key and use that one.",
    examples=({"expired_at": "2024-08-01T00:00:00Z"},),
    related=("INVALID_API_KEY",),
)
IDEMPOTENCY_KEY_REQUIRED = _fault(
    "IDEMPOTENCY_KEY_REQUIRED",
    status=400,
    says="This request needs an Idempotency-Key.",
    causes=("the header is missing",),
    remedy="Send the header with a key of your own, such as a UUID, and the same one with every repeat.",
    related=("IDEMPOTENCY_KEY_INVALID",),
)
IDEMPOTENCY_CALLER_UNKNOWN = _fault(
    "IDEMPOTENCY_CALLER_UNKNOWN",
    status=401,
    says="A request with an Idempotency-Key needs a known caller.",
    causes=("the credentials are missing, wrong or expired", "the address is public, so that nobody is asked for any"),
    remedy="Send valid credentials with the key. Where none are needed, send the request without a key.",
    related=("UNAUTHORIZED", "IDEMPOTENCY_KEY_REQUIRED"),
)
IDEMPOTENCY_ANSWER_NOT_KEPT = _fault(
    "IDEMPOTENCY_ANSWER_NOT_KEPT",
    status=409,
    says="This request was carried out before, but its answer was too large to keep.",
    blame=Blame.CONFLICT,
    causes=("the answer has more bytes than `answer_bytes_max`",),
    remedy="Read the state instead of repeating the request.",
    related=("IDEMPOTENCY_IN_PROGRESS",),
)
