"""Who may ask for what here: operators, for everything."""

from __future__ import annotations

from holdfast.http.route_access import RouteAccess

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
ROUTES = tuple(RouteAccess(route) for route in OPERATORS)
