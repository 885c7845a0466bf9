"""What is asked before a body is read, and where a large body is decoded."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from holdfast.base import Secret, limits
from holdfast.http import BodyRule, Edge
from holdfast.http import body as guarded_body
from holdfast.http.operator import OperatorAccess

TOKEN = Secret("a token for the operator")


async def inside(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"inside"})


class Asked:
    """One request straight into the edge, whose body counts how often it is read."""

    def __init__(self, body: bytes = b"{}", authorization: str = "") -> None:
        self.reads = 0
        self.sent: list[Any] = []
        self._body = body
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": "/orders",
            "headers": [
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(body)),
                *([(b"authorization", authorization.encode())] if authorization else []),
            ],
        }

    async def receive(self) -> Any:
        self.reads += 1
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def of(self, edge: Edge) -> int:
        await edge(self.scope, self.receive, self.send)
        return int(self.sent[0]["status"])


async def test_the_operators_token_is_asked_for_before_any_of_the_body_is_read() -> None:
    edge = Edge(inside, access=OperatorAccess(TOKEN))
    stranger = Asked(b'{"half": ')
    assert (await stranger.of(edge), stranger.reads) == (401, 0)
    assert (b"www-authenticate", b"Bearer") in stranger.sent[0]["headers"]
    known = Asked(b'{"half": ', f"Bearer {TOKEN.reveal()}")
    assert (await known.of(edge), known.reads) == (400, 1)


async def test_a_public_address_asks_for_no_token() -> None:
    edge = Edge(inside, access=OperatorAccess(TOKEN, public=lambda scope: scope["path"] == "/orders"))
    assert await Asked().of(edge) == 200


@pytest.mark.parametrize(("extra", "beside"), [(0, False), (1, True)])
async def test_a_large_body_is_decoded_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, extra: int, beside: bool
) -> None:
    threads: list[threading.Thread] = []
    decode = guarded_body.decode

    def noted(*args: Any, **kwargs: Any) -> Any:
        threads.append(threading.current_thread())
        return decode(*args, **kwargs)

    monkeypatch.setattr(guarded_body, "decode", noted)
    body = b'"' + b"x" * (limits().json_inline_bytes_max - 2 + extra) + b'"'
    assert await Asked(body).of(Edge(inside, body=BodyRule())) == 200
    assert [one is not threading.main_thread() for one in threads] == [beside]


async def test_a_request_with_two_lengths_is_refused_and_its_connection_ends() -> None:
    asked = Asked()
    asked.scope["headers"].append((b"transfer-encoding", b"chunked"))  # type: ignore[attr-defined]
    assert (await asked.of(Edge(inside)), asked.reads) == (400, 0)
    assert (b"connection", b"close") in asked.sent[0]["headers"]
