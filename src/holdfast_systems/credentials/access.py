"""Who may ask for what here: operators for everything, but the webhook, whose signature is asked for."""

from __future__ import annotations

from holdfast.http.route_access import RouteAccess, public
from holdfast.http.sign_in import sign_in_access

PLATFORM = (
    "GET /openapi.json",
    "POST /v1/events",
    "GET /v1/events",
    "GET /v1/deliveries",
    "GET /v1/dead-letters",
    "POST /v1/dead-letters/reprocess",
    "POST /v1/dead-letters/discard",
    "GET /v1/alerts",
    "POST /v1/endpoints",
    "GET /v1/endpoints",
)
PLATFORM_OBJECTS = (
    "GET /v1/events/{event_id}",
    "GET /events/{event_id:path}",
    "GET /v1/endpoints/{endpoint_id}",
    "PATCH /v1/endpoints/{endpoint_id}",
    "DELETE /v1/endpoints/{endpoint_id}",
    "POST /v1/endpoints/{endpoint_id}/disable",
    "POST /v1/endpoints/{endpoint_id}/enable",
    "POST /v1/endpoints/{endpoint_id}/rotate-secret",
)
ENGINE = (
    "GET /openapi.json",
    "GET /v1/platforms",
    "GET /v1/platforms/{platform}/users",
    "GET /v1/platforms/{platform}/refusals",
    "GET /",
)
ENGINE_OBJECTS = (
    "GET /v1/platforms/{platform}/users/{user_id}",
    "GET /v1/platforms/{platform}/contributions/{contribution_id}",
    "GET /v1/platforms/{platform}/events/{event_id}",
    "GET /people/{platform}/{user_id:path}",
    "GET /events/{platform}/{event_id:path}",
)
PLATFORM_PAGES = (
    "GET /",
    "GET /events",
    "GET /deliveries",
    "GET /dead-letters",
    "GET /dead-letters/reprocess",
    "POST /dead-letters/reprocess",
    "GET /dead-letters/discard",
    "POST /dead-letters/discard",
)
ROUTES = (
    *(RouteAccess(route, part="platform") for route in (*PLATFORM, *PLATFORM_PAGES)),
    # What another tenant of the same store has is not there for this platform's operators.
    *(RouteAccess(route, other=404, part="platform") for route in PLATFORM_OBJECTS),
    *(RouteAccess(route, part="engine", shared="operators see every platform") for route in ENGINE),
    # What one platform sent is not found under the name of another.
    *(RouteAccess(route, other=404, part="engine") for route in ENGINE_OBJECTS),
    *(public("GET /style.css", "part of the pages", part=part) for part in ("platform", "engine")),
    *(rule for part in ("platform", "engine") for rule in sign_in_access(part=part)),
    RouteAccess("POST /v1/platforms/{platform}/webhook", part="engine", shared="a signature of the platform itself"),
)
