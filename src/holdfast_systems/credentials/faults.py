"""What can go wrong with credentials: the codes of the webhook contract, in its own words."""

from __future__ import annotations

from holdfast.catalog import CORE, Blame, Catalog, Severity
from holdfast.delivery import DELIVERY

CREDENTIALS = Catalog("credentials", docs="/errors/", extends=(DELIVERY,))
_fault = CREDENTIALS.fault

# -- who may come in -----------------------------------------------------------------------------------------------

UNAUTHORIZED = CREDENTIALS["UNAUTHORIZED"]
NOT_SIGNED_IN = CORE["UNAUTHORIZED"]
"""The same code for an operator without the token, who has made no signature that could be wrong."""
INVALID_SIGNATURE_FORMAT = CREDENTIALS["INVALID_SIGNATURE_FORMAT"]
FORBIDDEN = CREDENTIALS.refine(
    "FORBIDDEN",
    says="IP not whitelisted",
    technical="{address} is in none of the networks of {platform}",
    causes=("the platform sends from a new address", "a proxy stands in between and is not trusted"),
    remedy="Add the network to the platform's settings, or the proxy to the trusted ones.",
)
NOT_FOUND = CREDENTIALS["NOT_FOUND"]

# -- the payload ---------------------------------------------------------------------------------------------------

INVALID_JSON = CREDENTIALS["INVALID_JSON"]
INVALID_PAYLOAD = CREDENTIALS["INVALID_PAYLOAD"]
PAYLOAD_TOO_LARGE = CREDENTIALS.refine(
    "PAYLOAD_TOO_LARGE",
    says="Payload exceeds 1MB",
    causes=("a document or a picture was put into the event",),
    remedy="Send a link and a hash instead of the thing itself.",
)
INVALID_EVENT_TYPE = _fault(
    "INVALID_EVENT_TYPE",
    status=400,
    says="Unknown event_type",
    causes=("a misspelt type", "a newer sender than this engine"),
    remedy="Send one of the types that the details list.",
    examples=({"field": "event_type", "reason": "unknown", "allowed": ["contribution_created", "por_evidence"]},),
    related=("INVALID_PAYLOAD",),
)

# -- what evidence has to be ---------------------------------------------------------------------------------------

INVALID_TIMESTAMP = _fault(
    "INVALID_TIMESTAMP",
    status=400,
    says="Timestamp format invalid or too old",
    causes=("evidence older than the limit", "a clock in the future", "a time without its zone"),
    remedy="Send the time of the evidence as RFC 3339, with its zone; old evidence is not accepted.",
    examples=({"field": "proof.timestamp", "reason": "exceeds_max_age", "max_age_days": 30, "actual_age_days": 40},),
)
INVALID_COORDINATES = _fault(
    "INVALID_COORDINATES",
    status=400,
    says="GPS coordinates out of bounds",
    causes=("latitude and longitude were swapped", "a number sent as text"),
    remedy="Send latitudes from -90 to 90 and longitudes from -180 to 180, as numbers.",
    examples=({"field": "proof.location.lat", "reason": "out_of_range", "min": -90, "max": 90, "actual": 95.0},),
)
INVALID_MEDIA_HASH = _fault(
    "INVALID_MEDIA_HASH",
    status=400,
    says="Media hash format invalid",
    causes=("another kind of hash", "a hash that was cut"),
    remedy="Send the SHA-256 of the file: 64 hex digits.",
    examples=({"field": "proof.media_hash", "reason": "format", "expected": "64 hex digits"},),
)
INVALID_EVIDENCE_TYPE = _fault(
    "INVALID_EVIDENCE_TYPE",
    status=400,
    says="Unknown evidence type",
    causes=("a misspelt type", "a newer sender than this engine"),
    remedy="Send one of the types that the details list.",
    examples=({"field": "subject.evidence_type", "reason": "unknown", "allowed": ["photo_with_timestamp"]},),
)
MISSING_WITNESSES = _fault(
    "MISSING_WITNESSES",
    status=400,
    says="Witness attestation requires witnesses",
    causes=("the list is empty or not there",),
    remedy="Name at least one witness.",
    examples=({"field": "proof.witnesses", "reason": "required", "min_items": 1},),
)

# -- the engine itself ---------------------------------------------------------------------------------------------

INTERNAL_ERROR = CREDENTIALS.refine("INTERNAL_ERROR", says="Unexpected server error")
SERVICE_UNAVAILABLE = CREDENTIALS.refine(
    "SERVICE_UNAVAILABLE",
    says="Temporary maintenance",
    causes=("somebody switched maintenance on", "the database is away for a moment"),
    remedy="Send it again after the time in Retry-After; nothing is lost and nothing counts twice.",
)

# -- reading -------------------------------------------------------------------------------------------------------

MEMBER_NOT_FOUND = _fault(
    "MEMBER_NOT_FOUND",
    status=404,
    says="Nothing is known of this user.",
    causes=("a wrong id", "no event of theirs has arrived yet"),
    remedy="List the platform's users.",
)
CONTRIBUTION_NOT_FOUND = _fault(
    "CONTRIBUTION_NOT_FOUND",
    status=404,
    says="Nothing is known of this contribution.",
    causes=("a wrong id", "no event about it has arrived yet"),
    remedy="Look at the events that the platform has sent.",
)

# -- sending -------------------------------------------------------------------------------------------------------

DEAD_LETTER_NOT_FOUND = _fault(
    "DEAD_LETTER_NOT_FOUND",
    status=404,
    says="There is no such dead letter.",
    causes=("a wrong id", "somebody has reprocessed it"),
    remedy="List the dead letters.",
)
WEBHOOK_DEAD = _fault(
    "WEBHOOK_DEAD",
    status=502,
    says="Webhook DLQ: {event_type}",
    technical="{event_id} could not be delivered: {error}",
    blame=Blame.UPSTREAM,
    severity=Severity.CRITICAL,
    causes=("the receiver refused the event", "the receiver was away for all attempts"),
    remedy="Look at the error; when its cause is gone, reprocess.",
    examples=({"event_type": "por_evidence", "event_id": "evt_a1b2c3d4e5f6789a"},),
)
