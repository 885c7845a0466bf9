"""The edge: what Holdfast says over HTTP."""

from typing import TYPE_CHECKING

from holdfast.base.lazy import lazily
from holdfast.http.site import site

if TYPE_CHECKING:
    from holdfast.http.access import Access, identity
    from holdfast.http.body import BodyRule
    from holdfast.http.callers import credentials_digest
    from holdfast.http.client import HttpClient
    from holdfast.http.edge import Edge
    from holdfast.http.exchange import note
    from holdfast.http.faults import EDGE_FAULTS
    from holdfast.http.file_body import FileBody
    from holdfast.http.hang_up import ClientGone
    from holdfast.http.health import Check, Health, link_check, store_check
    from holdfast.http.idempotent import Idempotency, created, started_key
    from holdfast.http.keys import ApiKey, ApiKeys, Issued
    from holdfast.http.limits import RateLimits, RateRule, by_client, by_instance, by_key, by_origin, by_tenant
    from holdfast.http.openapi import describe, documented
    from holdfast.http.reply import Reply
    from holdfast.http.ssrf import ANYWHERE, PUBLIC, Reach, checked
    from holdfast.http.transport import Pool, Timeouts
    from holdfast.http.webhooks import WebhookSender
    from holdfast.http.wsgi import WsgiEdge

# Each program needs some of these: loaded when first used.
__getattr__ = lazily(
    __name__,
    globals(),
    dict.fromkeys(("Access", "identity"), "holdfast.http.access")
    | {"BodyRule": "holdfast.http.body", "ClientGone": "holdfast.http.hang_up"}
    | {"Edge": "holdfast.http.edge", "note": "holdfast.http.exchange"}
    | {"EDGE_FAULTS": "holdfast.http.faults", "WsgiEdge": "holdfast.http.wsgi"}
    | {"credentials_digest": "holdfast.http.callers"}
    | dict.fromkeys(("describe", "documented"), "holdfast.http.openapi")
    | {"FileBody": "holdfast.http.file_body", "HttpClient": "holdfast.http.client", "Reply": "holdfast.http.reply"}
    | dict.fromkeys(("ANYWHERE", "PUBLIC", "Reach", "checked"), "holdfast.http.ssrf")
    | dict.fromkeys(("Pool", "Timeouts"), "holdfast.http.transport")
    | {"WebhookSender": "holdfast.http.webhooks"}
    | dict.fromkeys(("Check", "Health", "link_check", "store_check"), "holdfast.http.health")
    | dict.fromkeys(("Idempotency", "created", "started_key"), "holdfast.http.idempotent")
    | dict.fromkeys(("ApiKey", "ApiKeys", "Issued"), "holdfast.http.keys")
    | dict.fromkeys(
        ("RateLimits", "RateRule", "by_client", "by_instance", "by_key", "by_origin", "by_tenant"),
        "holdfast.http.limits",
    ),
)

__all__ = [
    "ANYWHERE",
    "EDGE_FAULTS",
    "PUBLIC",
    "Access",
    "ApiKey",
    "ApiKeys",
    "BodyRule",
    "Check",
    "ClientGone",
    "Edge",
    "FileBody",
    "Health",
    "HttpClient",
    "Idempotency",
    "Issued",
    "Pool",
    "RateLimits",
    "RateRule",
    "Reach",
    "Reply",
    "Timeouts",
    "WebhookSender",
    "WsgiEdge",
    "by_client",
    "by_instance",
    "by_key",
    "by_origin",
    "by_tenant",
    "checked",
    "created",
    "credentials_digest",
    "describe",
    "documented",
    "identity",
    "link_check",
    "note",
    "site",
    "started_key",
    "store_check",
]
