"""A shop that counts what it does, for the tests of idempotency."""

from __future__ import annotations

import threading
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from holdfast.base import Secret
from holdfast.catalog import Catalog
from holdfast.guard import Answer, Keys, current_key
from holdfast.http.idempotent import created
from holdfast.store import Store

errors = Catalog("shop")
DECLINED = errors.fault("DECLINED", status=402, says="The card was declined.")
BUSY = errors.fault("BUSY", status=503, says="Busy.", retry=True)
ORDER = {"offering": "chat", "plan": "basic"}
KEY = "saleor:order-1:line-1"


class Shop:
    """An application that counts what it does."""

    def __init__(self, keys: Keys, store: Store) -> None:
        self.done: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.app = FastAPI()
        self._keys, self._store = keys, store
        for path in (
            "provision",
            "declined",
            "busy",
            "broken",
            "refused",
            "large",
            "empty",
            "forwarded",
            "own",
            "leaky",
        ):
            self.app.add_api_route(f"/{path}", getattr(self, path), methods=["POST"])
        self.app.add_api_route("/kinds/{kind}", self.kinds, methods=["POST"])

    def provision(self, order: dict[str, Any]) -> Response:
        self.entered.set()
        assert self.gate.wait(60)
        self.done.append("provision")
        created(instanceId=f"inst_{len(self.done)}")
        headers = {"Location": f"/instances/{len(self.done)}", "Set-Cookie": "session=secret", "X-Other": "1"}
        return Response(f'{{"instanceId" : {len(self.done)}}}', 201, headers, "application/json")

    async def declined(self) -> None:
        self.done.append("declined")
        raise DECLINED(attempt=len(self.done))

    async def busy(self) -> PlainTextResponse:
        self.done.append("busy")
        if len(self.done) == 1:
            raise BUSY(retry_after_s=2)
        return PlainTextResponse("made")

    async def broken(self) -> PlainTextResponse:
        self.done.append("broken")
        if len(self.done) == 1:
            raise RuntimeError("a bug")
        return PlainTextResponse("made")

    async def refused(self) -> None:
        self.done.append("refused")
        raise HTTPException(404 if len(self.done) == 1 else 410, "no such offering")

    async def large(self, status: int = 200) -> StreamingResponse:
        self.done.append("large")
        return StreamingResponse(iter([b"x" * 1_000] * 400), status, media_type="text/csv")

    async def empty(self) -> Response:
        self.done.append("empty")
        return Response(status_code=204)

    async def forwarded(self) -> str | None:
        return current_key()

    async def leaky(self) -> str:
        self.done.append("leaky")
        created(token=Secret("x"))  # type: ignore[arg-type]
        return "made"

    def own(self, request: Request) -> Response:
        """Stores its answer in the transaction of its effect, as one that must not lose either does."""
        started = request.scope["holdfast.started"]
        answer = Answer(201, (("Content-Type", "text/plain"),), b"made once")
        self._store.atomic(lambda tx: self._keys.finish(started, answer, tx=tx))
        self.done.append("own")
        return Response(answer.body, answer.status, media_type="text/plain")

    async def kinds(self, kind: str, status: int = 200) -> Response:
        self.done.append(kind)
        return Response(f'{{"mine":{len(self.done)}}}', status, media_type="application/json")
