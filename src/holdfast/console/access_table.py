"""Who may ask for what here: operators for everything, but the way in and what its page looks like."""

from __future__ import annotations

from holdfast.http.route_access import RouteAccess, public

OPERATORS = (
    "GET /",
    "GET /table/{name}",
    "GET /jobs",
    "GET /jobs/{job_id}",
    "POST /jobs/{job_id}/cancel",
    "POST /jobs/{job_id}/revive",
    "POST /jobs/{job_id}/discard",
    "GET /deliveries",
    "GET /dead",
    "GET /dead/revive",
    "POST /dead/revive",
    "GET /dead/discard",
    "POST /dead/discard",
    "GET /dead/progress/{action_id}",
    "POST /dead/resume",
    "GET /faults",
    "GET /faults/{code}",
    "GET /breakers",
    "POST /breakers/probe",
    "POST /breakers/trip",
    "POST /breakers/recover",
    "POST /queues/pause",
    "POST /queues/resume",
    "POST /queues/probe",
    "GET /limits",
    "GET /alerts",
    "GET /audit",
    "GET /live",
    "POST /leave",
)
ROUTES = (
    *(RouteAccess(route) for route in OPERATORS),
    RouteAccess("GET /enter"),
    RouteAccess("POST /enter", nobody=403, wrong_token=403),
    public("GET /static/{name}", "the page that asks for the token needs its style sheet"),
)
