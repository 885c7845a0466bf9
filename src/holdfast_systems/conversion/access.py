"""Who may ask for what here. Everybody has a session, and in it sees only what was uploaded there."""

from __future__ import annotations

from holdfast.http.route_access import RouteAccess, public

OWN = "anyone may upload; a session sees only its own"


def _owned(route: str, other: int) -> RouteAccess:
    return RouteAccess(route, nobody=other, wrong_token=other, other=other)


ROUTES = (
    public("GET /", "the page itself"),
    public("GET /page.js", "part of the page"),
    public("GET /uploads.js", "part of the page"),
    public("GET /page.css", "part of the page"),
    public("GET /api/openapi.json", "describes the API, and nothing that was uploaded"),
    public("GET /api/jobs", OWN),
    public("GET /api/events", OWN),
    public("POST /api/upload", OWN),
    public("POST /api/retry", OWN),
    public("POST /api/clear", OWN),
    public("GET /api/download", OWN),
    _owned("GET /api/jobs/{job_id}", 404),
    _owned("DELETE /api/jobs/{job_id}", 404),
    # The seed asks for these.
    _owned("GET /api/jobs/{job_id}/download", 403),
    _owned("POST /api/jobs/{job_id}/retry", 403),
)
