"""The chat widget: a script for any website, and a page of its own for each instance.

Always true: what they serve is the same for everybody and holds nothing of any tenant; whether an instance exists, and
whether a website may speak to it, the script asks the gateway.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from holdfast.base import encode
from holdfast.catalog import CORE
from holdfast.http import Edge
from holdfast.http.asgi import Application, Receive, Reply, Scope, Send, below, give
from holdfast_systems.commerce.faults import REMAP
from holdfast_systems.commerce.model import CONTROL_PLANE, GATEWAY
from holdfast_systems.commerce.pages.page_files import CSS, HEADERS, JAVASCRIPT, asset, filled, page, text_of
from holdfast_systems.commerce.parts import Context

SCRIPT = "/widget.js"
STYLE = "/widget/assets/page.css"
PAGE = re.compile(r"/widget/([A-Za-z0-9._:-]{1,100})\Z")
METHODS = ("GET", "HEAD")


def widget_pages(context: Context) -> Application:
    """Everything below `/widget`, and the script."""
    manage = f"{plane}/" if (plane := context.known_address(CONTROL_PLANE)) else ""
    fixed = {SCRIPT: _script(manage), STYLE: asset("page.css", CSS)}
    template, gateway = text_of("widget.html"), context.address_of(GATEWAY)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001 - nothing is received
        path = below(scope)
        named = PAGE.match(path)
        if path not in fixed and named is None:
            raise CORE["NOT_FOUND"](path=path[:200])
        if scope["method"] not in METHODS:
            raise CORE["METHOD_NOT_ALLOWED"](method=scope["method"])
        reply = fixed[path] if named is None else _page(template, scope, gateway, named[1])
        await give(reply, send, head=scope["method"] == "HEAD")

    return Edge(application, catalog=context.catalog, remap=REMAP)


def _script(manage: str) -> Reply:
    """The script, which other sites load: it knows where owners go to top up and to resume."""
    body = text_of("widget.js").replace('"{manage}"', encode(manage))
    shared = {**HEADERS, "cross-origin-resource-policy": "cross-origin", "access-control-allow-origin": "*"}
    return Reply(body=body.encode(), content_type=JAVASCRIPT, headers=shared)


def _page(template: str, scope: Scope, gateway: str, instance_id: str) -> Reply:
    values = {"root": quote(scope.get("root_path", "")), "gateway": gateway, "instance": instance_id}
    return page(filled(template, values))
