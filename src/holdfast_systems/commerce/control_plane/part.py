"""The control plane, put together."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

from holdfast.guard import Keys
from holdfast.http import BodyRule, Edge, Idempotency, describe
from holdfast.http.asgi import Application, Scope
from holdfast_systems.commerce.admission import TRUSTED, Admission, CallerKind, caller_of
from holdfast_systems.commerce.control_plane import plans
from holdfast_systems.commerce.control_plane.api_plans import plan_routes
from holdfast_systems.commerce.control_plane.service import Service
from holdfast_systems.commerce.faults import REMAP
from holdfast_systems.commerce.model import CONTROL_PLANE
from holdfast_systems.commerce.parts import Context, Part

BODY_BYTES_MAX = 65_536
KEYS_KEPT_S = 30 * 86_400.0
"""The shop may repeat an order for days."""
TWIN_WAIT_S = 5.0
BUYERS_READ = frozenset({*TRUSTED, CallerKind.BUYER})


def part(context: Context) -> Part:
    """The control plane on this ground."""
    store = context.ground.store
    plans.seed(store)
    service = Service(store=store, keys=Keys(store, expires_s=KEYS_KEPT_S))
    return Part(
        name=CONTROL_PLANE,
        app=_application(context, service, [plan_routes(service)]),
    )


def _application(context: Context, service: Service, routes: list[APIRouter]) -> Application:
    app = FastAPI(title="Control plane", docs_url=None, redoc_url=None, redirect_slashes=False)
    for one in routes:
        app.include_router(one)
    describe(app, catalog=context.catalog, remap=REMAP)
    return Edge(
        app,
        catalog=context.catalog,
        remap=REMAP,
        body=BodyRule(bytes_max=BODY_BYTES_MAX),
        access=Admission(context.tokens, kinds=_kinds),
        idempotency=Idempotency(
            keys=service.keys, caller=lambda scope: caller_of(scope).name, methods={"POST"}, wait_s=TWIN_WAIT_S
        ),
    )


def _kinds(scope: Scope) -> frozenset[CallerKind]:
    return BUYERS_READ if scope["method"] == "GET" else TRUSTED
