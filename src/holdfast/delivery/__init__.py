"""Telling others: sign, send, receive, dead letters."""

from typing import TYPE_CHECKING

from holdfast.base.lazy import lazily

if TYPE_CHECKING:
    from holdfast.delivery.body_hmac import BodyHmac
    from holdfast.delivery.dead import Undelivered, UndeliveredEvents, UndeliveredFilter
    from holdfast.delivery.deliveries import Deliveries, Delivery, EventHistory
    from holdfast.delivery.endpoint import Endpoint, EndpointSettings
    from holdfast.delivery.endpoints import Endpoints
    from holdfast.delivery.exchange import Outgoing, Reply, Send
    from holdfast.delivery.faults import DELIVERY
    from holdfast.delivery.incoming import Incoming
    from holdfast.delivery.key_sets import Fetch
    from holdfast.delivery.outcome import read_reply
    from holdfast.delivery.pace import Pace
    from holdfast.delivery.publishing import EVENT_BYTES_MAX, NewEvent, Published, new_event_id
    from holdfast.delivery.receive import Receiver
    from holdfast.delivery.saleor import SaleorSignature
    from holdfast.delivery.signing import SECRETS_MAX, SecretInvalid, Signer, Verified, Verifier
    from holdfast.delivery.standard import StandardWebhooks

# Who only receives needs nothing of sending: loaded when first used.
_HOMES = {
    "BodyHmac": "body_hmac",
    "DELIVERY": "faults",
    "Deliveries": "deliveries",
    "Delivery": "deliveries",
    "Endpoint": "endpoint",
    "EndpointSettings": "endpoint",
    "Endpoints": "endpoints",
    "EVENT_BYTES_MAX": "publishing",
    "EventHistory": "deliveries",
    "Fetch": "key_sets",
    "Incoming": "incoming",
    "NewEvent": "publishing",
    "Outgoing": "exchange",
    "Pace": "pace",
    "Published": "publishing",
    "Receiver": "receive",
    "Reply": "exchange",
    "SaleorSignature": "saleor",
    "SECRETS_MAX": "signing",
    "SecretInvalid": "signing",
    "Send": "exchange",
    "Signer": "signing",
    "StandardWebhooks": "standard",
    "Undelivered": "dead",
    "UndeliveredEvents": "dead",
    "UndeliveredFilter": "dead",
    "Verified": "signing",
    "Verifier": "signing",
    "new_event_id": "publishing",
    "read_reply": "outcome",
}
__getattr__ = lazily(__name__, globals(), {name: f"{__name__}.{home}" for name, home in _HOMES.items()})

__all__ = [
    "DELIVERY",
    "EVENT_BYTES_MAX",
    "SECRETS_MAX",
    "BodyHmac",
    "Deliveries",
    "Delivery",
    "Endpoint",
    "EndpointSettings",
    "Endpoints",
    "EventHistory",
    "Fetch",
    "Incoming",
    "NewEvent",
    "Outgoing",
    "Pace",
    "Published",
    "Receiver",
    "Reply",
    "SaleorSignature",
    "SecretInvalid",
    "Send",
    "Signer",
    "StandardWebhooks",
    "Undelivered",
    "UndeliveredEvents",
    "UndeliveredFilter",
    "Verified",
    "Verifier",
    "new_event_id",
    "read_reply",
]
