"""Who may ask for what here: operators and services for everything, buyers for what is theirs."""

from __future__ import annotations

from holdfast.http.route_access import RouteAccess, public
from holdfast_systems.commerce.model import CONNECTORS, CONTROL_PLANE, GATEWAY, PROVISIONER, RUNNER

OTHER_TENANTS = "test_gateway_access.py::test_1_2_404_for_every_kind_of_id_of_another_tenant"
ANY_TOKEN = (
    "GET /plans",
    "GET /plans/{sku}",
    "GET /offerings",
    "GET /offerings/{offering_id}",
    "GET /instances",
    "GET /buyers/me",
)
TRUSTED = (
    "GET /openapi.json",
    "PUT /plans/{sku}",
    "PUT /offerings/{offering_id}",
    "POST /integrations/saleor/order-paid",
    "POST /instances",
    "GET /instances/{instance_id}/allowlist",
    "PUT /instances/{instance_id}/allowlist",
    "GET /instances/{instance_id}/bindings",
    "GET /instances/{instance_id}/bindings/{tool}",
    "PUT /instances/{instance_id}/bindings/{tool}",
    "GET /instances/{instance_id}/entitlements",
    "PUT /instances/{instance_id}/entitlements",
    "POST /wallets/{wallet_id}/topups",
    "POST /billing/authorize",
    "POST /billing/settle",
    "POST /billing/release",
    "POST /buyers/sessions",
    "POST /instances/{instance_id}/retrieval",
)
OF_BUYER = (
    "GET /instances/{instance_id}",
    "POST /instances/{instance_id}/pause",
    "POST /instances/{instance_id}/resume",
    "GET /wallets/{wallet_id}",
    "GET /wallets/{wallet_id}/entries",
    "POST /instances/{instance_id}/uploads",
    "GET /instances/{instance_id}/uploads/{upload_id}",
    "GET /instances/{instance_id}/uploads/{upload_id}/content",
    "POST /instances/{instance_id}/ingestions",
    "GET /instances/{instance_id}/ingestions",
    "GET /ingestions/{ingestion_id}",
)
TOOLS = (
    "GET /openapi.json",
    "GET /v1/tools",
    "GET /v1/tools/{tool}",
    "PUT /v1/tools/{tool}",
    "GET /v1/instances/{instance_id}/tools",
    "POST /v1/instances/{instance_id}/tools/{tool}",
    "POST /v1/instances/{instance_id}/mcp",
)
CONTROL_PLANE_ROUTES = (
    *(RouteAccess(route, part=CONTROL_PLANE, shared="plans and offerings are everybody's") for route in ANY_TOKEN),
    *(RouteAccess(route, other=403, lower=403, part=CONTROL_PLANE) for route in TRUSTED),
    *(RouteAccess(route, other=404, part=CONTROL_PLANE) for route in OF_BUYER),
    public("GET /", "the buyer's page, which holds nothing of anybody", part=CONTROL_PLANE),
    public("GET /page.js", "a file of the buyer's page", part=CONTROL_PLANE),
    public("GET /page.css", "a file of the buyer's page", part=CONTROL_PLANE),
    public("POST /buyers/enter", "the ticket of the link is the proof", part=CONTROL_PLANE),
    # The signature in the address is the proof, and no token replaces it.
    RouteAccess("PUT /uploads/{upload_id}", nobody=403, wrong_token=403, other=403, lower=403, part=CONTROL_PLANE),
)
RUNNER_ROUTES = tuple(
    RouteAccess(route, other=403, lower=403, part=RUNNER) for route in ("GET /openapi.json", "POST /v1/runs")
)
CONNECTORS_ROUTES = tuple(RouteAccess(route, other=403, lower=403, part=CONNECTORS) for route in TOOLS)
GATEWAY_ROUTES = (
    public("GET /openapi.json", "describes the API, and nothing of any tenant", part=GATEWAY),
    public("POST /v1/widget/sessions", "the website proves itself by its origin", part=GATEWAY),
    # Whose an instance is, the gateway asks the control plane over HTTP: tried where both are served.
    RouteAccess("POST /v1/instances/{instance_id}/runs", part=GATEWAY, elsewhere=OTHER_TENANTS),
    RouteAccess("GET /v1/instances/{instance_id}/runs", part=GATEWAY, elsewhere=OTHER_TENANTS),
    RouteAccess("GET /v1/runs/{run_id}", other=404, part=GATEWAY, elsewhere=OTHER_TENANTS),
)
PROVISIONER_ROUTES = (
    RouteAccess("POST /webhooks/saleor/order-fully-paid", part=PROVISIONER),
    # Without a body, which the proof is part of.
    RouteAccess("POST /webhooks/saleor/app-install", nobody=400, wrong_token=400, part=PROVISIONER),
    public("GET /manifest", "the shop reads it before it knows us", part=PROVISIONER),
    public("GET /openapi.json", "describes the API, and nothing of anybody", part=PROVISIONER),
)
ROUTES = (*PROVISIONER_ROUTES, *CONTROL_PLANE_ROUTES, *RUNNER_ROUTES, *CONNECTORS_ROUTES, *GATEWAY_ROUTES)
