"""Who may ask for what here: operators and services for everything, buyers for what is theirs."""

from __future__ import annotations

from holdfast.http.route_access import RouteAccess
from holdfast_systems.commerce.model import CONTROL_PLANE

CATALOG = (
    "GET /openapi.json",
    "GET /plans",
    "GET /plans/{sku}",
    "GET /offerings",
    "GET /offerings/{offering_id}",
)
TRUSTED = (
    "PUT /plans/{sku}",
    "PUT /offerings/{offering_id}",
)
ROUTES = (
    *(RouteAccess(route, part=CONTROL_PLANE) for route in CATALOG),
    *(RouteAccess(route, part=CONTROL_PLANE) for route in TRUSTED),
)
