"""Signing in and out, the same for the pages of every system: ASGI middleware in front of an application.

Always true: one sign-in opens the console and the pages of all systems that have the same token; afterwards the person
is where they wanted to go, and never at another site; no page of another site signs anybody in or out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files
from math import ceil
from urllib.parse import parse_qs, quote

from holdfast.base import Secret
from holdfast.catalog import CORE, Catalog, Failure
from holdfast.catalog.core import FORBIDDEN, METHOD_NOT_ALLOWED, RATE_LIMIT_EXCEEDED
from holdfast.catalog.dialect import Dialect
from holdfast.http.asgi import Application, Receive, Reply, Scope, Send, below, give, header, prefers_html
from holdfast.http.body import BodyRule
from holdfast.http.edge import Edge
from holdfast.http.origin import is_foreign, origin_of
from holdfast.http.return_path import FRONT_PAGE, asked_path, checked, depth
from holdfast.http.route_access import RouteAccess, public
from holdfast.http.route_table import Route, RouteTable
from holdfast.http.sessions import Session, Sessions
from holdfast.http.sign_in_page import sign_in_page
from holdfast.http.wrong_tokens import let_in

SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"
FIELDS_MAX = 10
FORM = BodyRule(bytes_max=8_192, json_checked=False)
ASSETS = {
    "/sign-in.css": ("text/css; charset=utf-8", ("site.css", "sign_in.css")),
    "/sign-in.js": ("text/javascript; charset=utf-8", ("sign_in.js",)),
}
ROUTES = (
    f"GET {SIGN_IN}",
    f"POST {SIGN_IN}",
    f"GET {SIGN_OUT}",
    f"POST {SIGN_OUT}",
    *(f"GET {path}" for path in ASSETS),
)
_Answer = Callable[[Scope, Receive], Awaitable[Reply]]
PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    # Not `no-referrer`: a form would then name no origin, and could not be told from another site's.
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}


class SignIn:
    """Answers `/sign-in` and `/sign-out` below the application's root, and hands everything else to it."""

    def __init__(
        self,
        app: Application,
        sessions: Sessions,
        *,
        title: str,
        address: str,
        catalog: Catalog = CORE,
        dialect: Dialect = Dialect.NESTED,
    ) -> None:
        """
        Args:
            title: what is behind the sign-in, for the page.
            address: where the system stands; its scheme says whether the cookie is for HTTPS alone.
            catalog: whose words refusals have.
        """
        self._app = app
        self._sessions = sessions
        self._title = title
        self._origin = origin_of(address)
        self._secure = address.startswith("https:")
        self._assets = {path: _read(names) for path, (_, names) in ASSETS.items()}
        self._own = Edge(self._answer, catalog=catalog, dialect=dialect, body=FORM)
        answers: dict[str, _Answer] = {
            f"GET {SIGN_IN}": self._shown,
            f"POST {SIGN_IN}": self._signed_in,
            f"GET {SIGN_OUT}": self._returned,
            f"POST {SIGN_OUT}": self._signed_out,
            **{f"GET {path}": self._asset for path in ASSETS},
        }
        self.table = RouteTable([Route(route, answers[route]) for route in ROUTES])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        own = scope["type"] == "http" and bool(self.table.methods(below(scope)))
        await (self._own if own else self._app)(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = below(scope), scope["method"]
        found = self.table.find(method, path)
        if found is None:
            raise METHOD_NOT_ALLOWED(method=method)
        if method == "POST" and is_foreign(scope, self._origin):
            raise FORBIDDEN("The request came from another site.")
        return await give(await found.answer(scope, receive), send, head=method == "HEAD")

    async def _asset(self, scope: Scope, _: Receive) -> Reply:
        path = below(scope)
        return Reply(body=self._assets[path], content_type=ASSETS[path][0])

    async def _returned(self, _: Scope, __: Receive) -> Reply:
        return go_to(FRONT_PAGE)  # somebody loads again what a form led to

    async def _shown(self, scope: Scope, _: Receive) -> Reply:
        wanted = checked(field(scope.get("query_string", b""), "next"))
        return go_to(wanted) if await self._sessions.holds(scope) else self._page(wanted)

    async def _signed_in(self, scope: Scope, receive: Receive) -> Reply:
        form = await whole(receive)
        wanted = checked(field(form, "next"))
        try:
            cookie = self._sessions.enter(scope, field(form, "token").strip())
        except Failure as failure:
            if failure.code != RATE_LIMIT_EXCEEDED.code:
                raise
            wait = {"retry-after": str(ceil(failure.retry_after_s or 1.0))}
            return self._page(wanted, problem=failure.message, status=failure.status, headers=wait)
        if cookie is None:
            return self._page(wanted, problem="That is not the token.", status=401)
        return go_to(wanted, cookie=self._cookie(cookie, scope))

    async def _signed_out(self, scope: Scope, _: Receive) -> Reply:
        await self._sessions.leave(scope)
        return go_to(FRONT_PAGE, cookie=self._cookie("", scope))

    def _cookie(self, value: str, scope: Scope) -> str:
        return self._sessions.set_cookie(value, secure=self._secure or scope.get("scheme") == "https")

    def _page(
        self, wanted: str, *, problem: str = "", status: int = 200, headers: dict[str, str] | None = None
    ) -> Reply:
        body = sign_in_page(self._title, wanted=wanted, problem=problem)
        return Reply(body=body, status=status, headers={**PAGE_HEADERS, **(headers or {})})


def ask_to_sign_in(scope: Scope, *, wanted: str | None = None) -> Reply | None:
    """A person's way from a page to the sign-in and back; None for a program, which is to be told UNAUTHORIZED.

    Args:
        wanted: the path to go to afterwards; without one, the path that was asked for.
    """
    if not prefers_html(header(scope, "accept")):
        return None
    path = asked_path(scope) if wanted is None else checked(wanted)
    query = "" if path == FRONT_PAGE else f"?next={quote(path, safe='/')}"
    # Relative, so that it holds behind a proxy that has put something before the path.
    address = f"{'../' * depth(scope) or './'}{SIGN_IN[1:]}{query}"
    return Reply(body=b"", status=303, headers={"location": address, "cache-control": "no-store", "vary": "accept"})


async def session_or_token(sessions: Sessions, token: Secret, scope: Scope) -> Session | bool:
    """The session of a request; True for one that brings the token itself, False for neither.

    Raises:
        Failure: RATE_LIMIT_EXCEEDED for a wrong token after too many; or the database's own.
    """
    return await sessions.found(scope) or let_in(scope, token)


def sign_in_access(*, part: str = "") -> tuple[RouteAccess, ...]:
    """The access of the routes that are the same everywhere."""
    why = {SIGN_IN: "asks for the token", SIGN_OUT: "to sign out without a session changes nothing"}
    rules = []
    for route in ROUTES:
        if route == f"POST {SIGN_IN}":
            rules.append(RouteAccess(route, part=part))
        else:
            rules.append(public(route, why.get(route.partition(" ")[2], "part of the sign-in page"), part=part))
    return tuple(rules)


def go_to(path: str, *, cookie: str | None = None) -> Reply:
    """From a page directly below the root to a path of the application."""
    told = {} if cookie is None else {"set-cookie": cookie}
    return Reply(body=b"", status=303, headers={"location": f".{path}", "cache-control": "no-store", **told})


def field(form: bytes, name: str) -> str:
    """One field of a form; empty when it is missing, or when this cannot be read as a form."""
    try:
        return parse_qs(form.decode("latin-1"), max_num_fields=FIELDS_MAX).get(name, [""])[0]
    except ValueError:
        return ""


async def whole(receive: Receive) -> bytes:
    """The body of a request, which the edge bounds."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


def _read(names: tuple[str, ...]) -> bytes:
    return b"\n".join(files("holdfast.http").joinpath(name).read_bytes() for name in names)
