"""Replies as values, and the one place that sends them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

# No script, no frame, no form and nothing from elsewhere: a page is text and our own style sheet.
_GUARDED = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One whole answer."""

    body: bytes
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


async def give(reply: Reply, send: Send, *, head: bool) -> None:
    """Send the reply; to a HEAD request, all of it but the body."""
    body = reply.body
    headers = {
        "content-type": reply.content_type,
        "content-length": str(len(body)),
        **_GUARDED,
        **reply.headers,
    }
    written = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": written})
    await send({"type": "http.response.body", "body": b"" if head else body})


def header(scope: Scope, name: str) -> str:
    """The request's header, its repetitions joined by commas; empty when there is none."""
    wanted = name.encode("latin-1")
    return ", ".join(value.decode("latin-1") for key, value in scope["headers"] if key == wanted)


def below(scope: Scope) -> str:
    """The path below the place where the application stands."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")) or "/"


def prefers_html(accept: str) -> bool:
    """Whether the Accept header names HTML and ranks it no lower than JSON; a client that does not say gets JSON."""
    weights = dict(_weight(part) for part in accept.split(","))
    html = weights.get("text/html", 0.0)
    return html > 0 and html >= max(weights.get("application/json", 0.0), weights.get("application/problem+json", 0.0))


def _weight(part: str) -> tuple[str, float]:
    kind, *parameters = (word.strip().lower() for word in part.split(";"))
    quality = next((word[2:] for word in parameters if word.startswith("q=")), "1")
    try:
        return kind, float(quality)
    except ValueError:
        return kind, 0.0
