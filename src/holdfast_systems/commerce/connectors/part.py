"""The connectors, put together."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.routing import Route

from holdfast.http import BodyRule, Edge, HttpClient, Timeouts, describe, link_check
from holdfast.http.asgi import Application
from holdfast_systems.commerce.admission import Admission
from holdfast_systems.commerce.connectors.api import tool_routes
from holdfast_systems.commerce.connectors.calls import ToolCalls
from holdfast_systems.commerce.connectors.control_plane import ControlPlane
from holdfast_systems.commerce.connectors.limits import ToolLimits
from holdfast_systems.commerce.connectors.links import Links
from holdfast_systems.commerce.connectors.mcp_server import McpServer
from holdfast_systems.commerce.connectors.tools import DEMO_TOOLS, Tools
from holdfast_systems.commerce.connectors.vault import Vault
from holdfast_systems.commerce.faults import REMAP
from holdfast_systems.commerce.loop_client import LoopClient
from holdfast_systems.commerce.model import CONNECTORS, CONTROL_PLANE
from holdfast_systems.commerce.parts import Context, Part
from holdfast_systems.commerce.standins import crm, vault, weather

BODY_BYTES_MAX = 262_144
IDLE_S = 2.0
"""Servers keep an idle connection for longer, so that a write meets none that is just being closed."""


def part(context: Context) -> Part:
    """The connectors on this ground."""
    settings, store = context.settings, context.ground.store
    tools = Tools(store)
    if context.ground.standins:
        tools.add_missing(DEMO_TOOLS)
    links, outgoing = Links(settings), LoopClient(Timeouts(), idle_s=IDLE_S)
    calls = _Calls(context, tools, links, outgoing)
    standins = {"vault": vault.VaultStandIn().app(), "weather": weather.standin(), "crm": crm.standin()}
    return Part(
        name=CONNECTORS,
        app=_application(context, calls, tools),
        checks={"vault": link_check(links.vault), "control-plane": link_check(links.control_plane)},
        standins=standins if context.ground.standins else {},
        stop=outgoing.close,
    )


class _Calls:
    """Makes what calls tools, once for the loop that serves."""

    def __init__(self, context: Context, tools: Tools, links: Links, outgoing: LoopClient) -> None:
        self._context = context
        self._tools = tools
        self._links = links
        self._outgoing = outgoing
        self._limits = ToolLimits(context.ground.store)
        self._address = context.address_of(CONTROL_PLANE)
        self._made: tuple[HttpClient, ToolCalls] | None = None

    def __call__(self) -> ToolCalls:
        client = self._outgoing.here
        if self._made is None or self._made[0] is not client:
            self._made = client, self._make(client)
        return self._made[1]

    def _make(self, client: HttpClient) -> ToolCalls:
        context, settings = self._context, self._context.settings
        own_vault = context.ground.standins and not settings.vault_url
        return ToolCalls(
            client=client,
            links=self._links,
            control_plane=ControlPlane(
                client,
                self._links.control_plane,
                address=self._address,
                tokens=context.tokens,
                timeout_s=settings.control_plane_timeout_s,
                remembered_s=settings.instance_cache_s,
            ),
            vault=Vault(
                client,
                self._links.vault,
                address=context.standin("vault"),
                token=vault.TOKEN if own_vault else settings.vault_token,
                mount=settings.vault_mount,
                timeout_s=settings.vault_timeout_s,
            ),
            tools=self._tools,
            limits=self._limits,
            settings=settings,
            standin=context.standin,
        )


def _application(context: Context, calls: _Calls, tools: Tools) -> Application:
    app = FastAPI(title="Connectors", docs_url=None, redoc_url=None, redirect_slashes=False)
    app.include_router(tool_routes(calls, tools))
    app.router.routes.append(Route("/v1/instances/{instance_id}/mcp", McpServer(calls), methods=["POST"]))
    describe(app, catalog=context.catalog, remap=REMAP)
    return Edge(
        app,
        catalog=context.catalog,
        remap=REMAP,
        body=BodyRule(bytes_max=BODY_BYTES_MAX),
        access=Admission(context.tokens),
    )
