"""What can go wrong when others are told, or tell us: signatures, events, endpoints and their answers."""

from __future__ import annotations

from holdfast.catalog import Catalog
from holdfast.catalog.core import CORE
from holdfast.catalog.fault import Blame, Severity

DELIVERY = Catalog("delivery", docs="/errors/", extends=(CORE,))
_fault = DELIVERY.fault

# -- signatures ----------------------------------------------------------------------------------------------------

UNAUTHORIZED = DELIVERY.refine(
    "UNAUTHORIZED",
    says="Signature verification failed",
    technical="no signature of the request fits: {reason}",
    causes=("another secret on the other side", "the body was changed on its way", "somebody else sent it"),
    remedy="Check the webhook secret, and that the signature is made over the bytes that are sent.",
    related=("INVALID_SIGNATURE_FORMAT", "SIGNATURE_EXPIRED"),
)
INVALID_SIGNATURE_FORMAT = _fault(
    "INVALID_SIGNATURE_FORMAT",
    status=401,
    says="Signature header malformed",
    technical="{header}: {reason}",
    blame=Blame.CLIENT,
    causes=("another scheme than the one expected", "a proxy that joins or cuts headers"),
    remedy="Send the header in the form that the scheme defines.",
    related=("UNAUTHORIZED",),
)
SIGNATURE_EXPIRED = _fault(
    "SIGNATURE_EXPIRED",
    status=401,
    says="The signature was made too long ago, or in the future.",
    blame=Blame.CLIENT,
    causes=("an old request was sent again", "one of the clocks is wrong"),
    remedy="Sign each attempt afresh, and set the clock.",
    related=("UNAUTHORIZED",),
)
SIGNATURE_FAULTS = (UNAUTHORIZED, INVALID_SIGNATURE_FORMAT, SIGNATURE_EXPIRED)
"""What a webhook is refused with whose signature is wrong."""
SIGNING_KEYS_UNAVAILABLE = _fault(
    "SIGNING_KEYS_UNAVAILABLE",
    status=503,
    says="The signature cannot be checked at the moment. Send it again later.",
    technical="the public keys of {origin} cannot be had: {reason}",
    retry=True,
    blame=Blame.UPSTREAM,
    causes=("the place that publishes the keys does not answer",),
    remedy="Wait; the sender tries again.",
)

# -- receiving -----------------------------------------------------------------------------------------------------

EVENT_IN_PROGRESS = _fault(
    "EVENT_IN_PROGRESS",
    status=503,
    says="The same event is being worked on right now.",
    retry=True,
    blame=Blame.CONFLICT,
    causes=("the event was sent twice at the same time", "whoever worked on it died a moment ago"),
    remedy="Send it again after the time in Retry-After; the answer will be the first one's.",
)
INVALID_JSON = _fault(
    "INVALID_JSON",
    status=400,
    says="JSON syntax error",
    blame=Blame.CLIENT,
    remedy="Send one JSON document in UTF-8.",
    related=("INVALID_PAYLOAD",),
)
INVALID_PAYLOAD = _fault(
    "INVALID_PAYLOAD",
    status=400,
    says="The payload is not valid.",
    blame=Blame.CLIENT,
    remedy="Correct the field that the details name.",
    related=("INVALID_JSON",),
)

# -- sending -------------------------------------------------------------------------------------------------------

REDIRECTED = _fault(
    "REDIRECTED",
    status=502,
    says="The endpoint has moved; redirects are not followed.",
    blame=Blame.CLIENT,
    causes=("the receiver moved to another address", "http where the receiver wants https"),
    remedy="Put the new address into the endpoint, then replay.",
)
ENDPOINT_DISABLED = _fault(
    "ENDPOINT_DISABLED",
    status=409,
    says="The endpoint {endpoint_id} is disabled.",
    technical="the endpoint {endpoint_id} is disabled: {reason}",
    blame=Blame.NO_OP,
    causes=("somebody disabled it", "it answered 410"),
    remedy="Enable the endpoint and replay what it missed, or discard that.",
)
ENDPOINT_REMOVED = _fault(
    "ENDPOINT_REMOVED",
    status=409,
    says="The endpoint {endpoint_id} was removed.",
    blame=Blame.NO_OP,
    causes=("an operator removed it while events for it were undelivered",),
    remedy="Discard what it did not get.",
)
ENDPOINT_NOT_FOUND = _fault(
    "ENDPOINT_NOT_FOUND",
    status=404,
    says="There is no such endpoint.",
    causes=("a wrong id", "the endpoint was removed"),
    remedy="List the endpoints.",
)
EVENT_NOT_FOUND = _fault(
    "EVENT_NOT_FOUND",
    status=404,
    says="There is no such event.",
    causes=("a wrong id", "the event was pruned"),
    remedy="Check the id; events are kept for the retention time only.",
)
EVENT_ID_TAKEN = _fault(
    "EVENT_ID_TAKEN",
    status=409,
    says="Another event with this id was published before.",
    blame=Blame.CONFLICT,
    causes=("an id was used for two different events",),
    remedy="Give every event an id of its own, and every repeat of it the same content.",
)
EVENT_TOO_LARGE = _fault(
    "EVENT_TOO_LARGE",
    status=413,
    says="The event has {bytes} bytes; at most {bytes_max} are sent.",
    blame=Blame.CLIENT,
    causes=("a document was put into the payload",),
    remedy="Put a link to the document into the payload.",
)
NO_SECRET = _fault(
    "NO_SECRET",
    status=500,
    says="Something went wrong on our side.",
    technical="the endpoint {endpoint_id} has no secret in force, or none that its scheme can sign with",
    blame=Blame.SERVER,
    causes=("every secret has expired", "the scheme was changed and the secret was not"),
    remedy="Rotate the endpoint's secret, then replay.",
    severity=Severity.WARNING,
)
