"""Who may ask for what here: accounts by their API keys, each for its own and as far as the key's scopes go."""

from __future__ import annotations

from holdfast.http.route_access import RouteAccess, public
from holdfast.http.sign_in import sign_in_access

OPERATORS = (
    "GET /accounts",
    "GET /keys",
    "POST /keys",
    "DELETE /keys/{key_id}",
    "GET /quotas/{account_id}",
    "PUT /quotas/{account_id}",
    "PUT /maintenance",
    "DELETE /maintenance",
)
OF_ACCOUNT = (
    "GET /companies",
    "POST /companies",
    "GET /people",
    "POST /people",
    "GET /imports",
    "POST /imports",
    "GET /verifications",
    "POST /verifications",
    "GET /reviews",
    "POST /enrichments",
)
OF_RECORD = (
    "GET /companies/{company_uid}",
    "PATCH /companies/{company_uid}",
    "DELETE /companies/{company_uid}",
    "GET /people/{person_uid}",
    "PATCH /people/{person_uid}",
    "DELETE /people/{person_uid}",
    "PUT /slots/{slot_uid}",
    "DELETE /slots/{slot_uid}",
    "GET /imports/{import_id}",
    "GET /imports/{import_id}/rows",
    "GET /verifications/{verification_id}",
    "GET /enrichments/{enrichment_id}",
    "POST /reviews/{review_id}/approve",
    "POST /reviews/{review_id}/reject",
)


def _below(prefix: str, route: str) -> str:
    method, _, path = route.partition(" ")
    return f"{method} {prefix}{path}"


ROUTES = (
    public("GET /", "the page itself; what it shows comes from the API"),
    public("GET /page.js", "part of the page"),
    public("GET /page.css", "part of the page"),
    *sign_in_access(),
    public("GET /openapi.json", "describes the API, and nothing of any account"),
    # A key of an account is not the operator's token, whatever its scopes.
    *(
        RouteAccess(_below(place, route), other=401, lower=401)
        for place in ("/v1/admin", "/admin")
        for route in OPERATORS
    ),
    *(RouteAccess(_below("/v1", route), lower=403) for route in OF_ACCOUNT),
    *(RouteAccess(_below("/v1", route), other=404, lower=403) for route in OF_RECORD),
)
