"""Who may ask for what here: operators, for everything."""

from __future__ import annotations

from holdfast.http.route_access import RouteAccess, public
from holdfast.http.sign_in import sign_in_access

OPERATORS = (
    "GET /v1/openapi.json",
    "PUT /v1/prompts/{prompt_id}",
    "GET /v1/prompts/{prompt_id}",
    "PUT /v1/schemas/{schema_id}",
    "GET /v1/schemas/{schema_id}",
    "POST /v1/flow-runs",
    "GET /v1/flow-runs",
    "GET /v1/flow-runs/{run_id}",
    "POST /v1/flow-runs/{run_id}/steps/{step_id}/rerun",
    "GET /v1/flow-runs/{run_id}/steps/{step_id}/report",
    "GET /v1/flow-runs/{run_id}/steps/{step_id}/report.html",
    "POST /v1/events",
)
ASSETS = ("GET /page.js", "GET /graph.js", "GET /page.css", "GET /sample.json")
ROUTES = (
    *(RouteAccess(route, shared="runs and definitions have one tenant, the operators") for route in OPERATORS),
    *sign_in_access(),
    public("GET /", "the page itself; what it shows comes from the API"),
    *(public(route, "part of the page") for route in ASSETS),
)
