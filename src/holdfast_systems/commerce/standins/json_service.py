"""A small JSON service on loopback: routes by method and path, bounded bodies, answers as values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from holdfast.base import CodecError, Json, decode, encode
from holdfast.http.asgi import Receive, Reply, Scope, Send, give

BODY_BYTES_MAX = 64 * 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request, whole."""

    method: str
    path: str
    """Below the place where the service stands."""
    parts: tuple[str, ...]
    """What the groups of the route's pattern found."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The body as a JSON object; empty when it is not one."""
        try:
            read = decode(self.body, bytes_max=BODY_BYTES_MAX)
        except CodecError:
            return {}
        return read if isinstance(read, dict) else {}

    @property
    def bearer(self) -> str:
        """The token of the Authorization header; empty when there is none."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""


Answer = tuple[int, Json]
"""The status and the JSON of an answer."""
Route = tuple[str, str, Callable[[Asked], Answer]]
"""The method, the pattern of the whole path, and what answers."""


class JsonService:
    """An ASGI application that answers with JSON."""

    def __init__(self, routes: Sequence[Route], *, missing: Answer = (404, {"error": "not found"})) -> None:
        self._routes = [(method, re.compile(pattern), answer) for method, pattern, answer in routes]
        self._missing = missing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status, answer = self._answered(scope, await _whole(receive))
        reply = Reply(body=encode(answer).encode(), content_type="application/json", status=status)
        await give(reply, send, head=scope["method"] == "HEAD")

    def _answered(self, scope: Scope, body: bytes | None) -> Answer:
        if body is None:
            return 413, {"error": "the body is too large"}
        path = below(scope)
        for method, pattern, answer in self._routes:
            found = pattern.fullmatch(path)
            if found is not None and method == scope["method"]:
                return answer(
                    Asked(
                        method=method,
                        path=path,
                        parts=found.groups(),
                        query={name: values[0] for name, values in parse_qs(scope["query_string"].decode()).items()},
                        headers={name.decode().lower(): value.decode("latin-1") for name, value in scope["headers"]},
                        body=body,
                    )
                )
        return self._missing


def below(scope: Scope) -> str:
    """The path below the place where the application stands, without a slash at its end."""
    path, root = str(scope["path"]), str(scope.get("root_path", "")).rstrip("/")
    return (path.removeprefix(root) if root else path).rstrip("/") or "/"


async def _whole(receive: Receive) -> bytes | None:
    """The whole body; None when it is larger than we take."""
    pieces: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        piece = message.get("body", b"")
        size += len(piece)
        if size <= BODY_BYTES_MAX:
            pieces.append(piece)
        more = message["type"] == "http.request" and message.get("more_body", False)
    return b"".join(pieces) if size <= BODY_BYTES_MAX else None
