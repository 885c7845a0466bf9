"""The control plane, put together."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

from holdfast.guard import Keys
from holdfast.http import BodyRule, Edge, Idempotency, describe
from holdfast.http.asgi import Application, Scope
from holdfast.http.origin import origin_of
from holdfast.worker import Handlers, QueueSettings
from holdfast_systems.commerce.admission import TRUSTED, Admission, CallerKind, caller_of
from holdfast_systems.commerce.control_plane import plans
from holdfast_systems.commerce.control_plane.api_billing import billing_routes, order_routes, wallet_routes
from holdfast_systems.commerce.control_plane.api_buyers import buyer_routes
from holdfast_systems.commerce.control_plane.api_instances import binding_routes, instance_list, instance_routes
from holdfast_systems.commerce.control_plane.api_plans import plan_routes
from holdfast_systems.commerce.control_plane.cursors import Cursors
from holdfast_systems.commerce.control_plane.knowledge import Knowledge
from holdfast_systems.commerce.control_plane.ledger import Ledger
from holdfast_systems.commerce.control_plane.service import Service
from holdfast_systems.commerce.faults import REMAP
from holdfast_systems.commerce.model import CONTROL_PLANE
from holdfast_systems.commerce.pages.buyer import PATHS, buyer_page
from holdfast_systems.commerce.parts import Context, Part

BODY_BYTES_MAX = 65_536
KEYS_KEPT_S = 30 * 86_400.0
"""The shop may repeat an order for days."""
TWIN_WAIT_S = 5.0
UPLOAD_WAIT_S = 30.0
OPERATION_CHARS_MAX = 200
QUEUE = "commerce.ledger"
SWEEP = "commerce.sweep"
ENTER = "/buyers/enter"
FILES = "/uploads/"
BUYERS_POST = ("/pause", "/resume", "/uploads", "/ingestions")
PRIVATE = ("/bindings", "/allowlist", "/entitlements", "/openapi.json")
BUYERS = frozenset({*TRUSTED, CallerKind.BUYER})


def part(context: Context) -> Part:
    """The control plane on this ground."""
    store, settings = context.ground.store, context.settings
    plans.seed(store)
    service = Service(store=store, keys=Keys(store, expires_s=KEYS_KEPT_S))
    ledger = Ledger(store, reservation_s=settings.reservation_s)
    cursors = Cursors(context.tokens.derived("cursors"))
    knowledge = Knowledge(context, service, cursors)
    routes = [
        # Asked for most by far, and routes are tried in order.
        billing_routes(ledger),
        plan_routes(service),
        order_routes(service),
        instance_list(service, cursors),
        instance_routes(service),
        binding_routes(service),
        wallet_routes(service, cursors),
        buyer_routes(service, context.tokens),
        *knowledge.routes,
        buyer_page(context),
    ]
    handlers = _handlers(ledger, every_s=settings.sweep_every_s)
    knowledge.add_handlers(handlers)
    return Part(
        name=CONTROL_PLANE,
        app=_application(context, service, routes),
        handlers=handlers,
        checks=knowledge.checks,
        standins=knowledge.standins,
        stop=knowledge.stop,
    )


def _handlers(ledger: Ledger, *, every_s: float) -> Handlers:
    """The sweep of expired reservations, by the clock, once across all processes."""
    handlers = Handlers()
    handlers.serve(QueueSettings(QUEUE, concurrency=1))
    handlers.handle(SWEEP)(lambda job: ledger.sweep())  # noqa: ARG005 - it has no payload
    handlers.enqueue_by_clock(SWEEP, every_s=every_s, kind=SWEEP, queue=QUEUE)
    return handlers


def _application(context: Context, service: Service, routes: list[APIRouter]) -> Application:
    app = FastAPI(title="Control plane", docs_url=None, redoc_url=None, redirect_slashes=False)
    for one in routes:
        app.include_router(one)
    describe(app, catalog=context.catalog, remap=REMAP)
    small = BodyRule(bytes_max=BODY_BYTES_MAX)
    file = BodyRule(bytes_max=context.settings.upload_bytes_max, wait_s=UPLOAD_WAIT_S, json_checked=False)
    return Edge(
        app,
        catalog=context.catalog,
        remap=REMAP,
        body=lambda scope: file if _is_file(scope) else small,
        access=Admission(context.tokens, kinds=_kinds, public=_is_public, origin=origin_of(context.ground.address)),
        idempotency=Idempotency(
            keys=service.keys,
            caller=lambda scope: caller_of(scope).name,
            methods={"POST"},
            when=_is_keyed,
            # The same wherever the control plane stands.
            operation=lambda scope: f"{scope['method']} {below(scope)}"[:OPERATION_CHARS_MAX],
            wait_s=TWIN_WAIT_S,
        ),
    )


def _kinds(scope: Scope) -> frozenset[CallerKind]:
    """Buyers read what is theirs, pause it and resume it; plans are not secret; the rest is for services."""
    path, method = below(scope), scope["method"]
    if method == "POST":
        return BUYERS if path.endswith(BUYERS_POST) else TRUSTED
    private = path.endswith(PRIVATE) or "/bindings/" in path
    return BUYERS if method == "GET" and not private else TRUSTED


def _is_public(scope: Scope) -> bool:
    """The page holds nothing of anybody; a ticket is all the proof that its link brings, the signature in its address
    all that a file does.
    """
    path, method = below(scope), scope["method"]
    page = path in PATHS and method in ("GET", "HEAD")
    return page or (path == ENTER and method == "POST") or _is_file(scope)


def _is_file(scope: Scope) -> bool:
    return below(scope).startswith(FILES) and scope["method"] == "PUT"


def _is_keyed(scope: Scope) -> bool:
    """Billing and ingestions are idempotent by themselves; answers with tokens or signed addresses are not kept."""
    path = below(scope)
    return not path.startswith(("/billing/", "/buyers/")) and not path.endswith(("/uploads", "/ingestions"))


def below(scope: Scope) -> str:
    """The path below where the control plane stands."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))
