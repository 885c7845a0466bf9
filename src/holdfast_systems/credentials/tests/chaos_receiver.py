"""A receiver that does everything wrong that receivers do, in front of a real engine."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from holdfast.base import world
from holdfast.testing.ports import listening_socket

from .dice import Dice

PATH = "/v1/platforms/gotong_royong/webhook"
DELAY_S = 0.01


class ChaosReceiver:
    """Delays, drops replies, refuses, and now and then tells the truth."""

    def __init__(self, engine: Any, dice: Dice) -> None:
        self.done: Counter[str] = Counter()
        self.calm = False
        self._engine = engine
        self._dice = dice
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if self.calm:
            return await self._engines(request, body)
        await world().pause(self._dice.random() * DELAY_S)  # whoever came first is not answered first
        chance = self._dice.random()
        if chance < 0.05:
            return self._said("429", web.Response(status=429, headers={"Retry-After": "0"}))
        if chance < 0.11:
            return self._said("5xx", web.Response(status=self._dice.choice((500, 502, 503, 504))))
        reply = await self._engines(request, body)
        if chance < 0.19:
            if request.transport is not None:
                request.transport.abort()
            return self._said("dropped", reply)
        if chance < 0.25:
            return self._said("500 after the effect", web.Response(status=500))
        await world().pause(self._dice.random() * DELAY_S)
        return self._said("answered", reply)

    async def _engines(self, request: web.Request, body: bytes) -> web.Response:
        said: list[Any] = []
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
            "path": PATH, "raw_path": PATH.encode(), "root_path": "", "query_string": b"", "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 1),
            "headers": [(name.lower(), value) for name, value in request.raw_headers],
        }  # fmt: skip

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            said.append(message)

        await self._engine(scope, receive, send)
        return web.Response(status=said[0]["status"], body=said[1]["body"], content_type="application/json")

    def _said(self, what: str, reply: web.StreamResponse) -> web.StreamResponse:
        self.done[what] += 1
        return reply


@contextmanager
def chaotic(engine: Any, seed: int) -> Iterator[ChaosReceiver]:
    """The receiver on loopback, in a thread."""
    receiver = ChaosReceiver(engine, Dice(seed))
    listener = listening_socket()
    receiver.url = f"http://127.0.0.1:{listener.getsockname()[1]}{PATH}"
    loop = asyncio.new_event_loop()
    application = web.Application()
    application.router.add_post(PATH, receiver.answer)
    runner = web.AppRunner(application, access_log=None)

    async def begin() -> None:
        await runner.setup()
        await web.SockSite(runner, listener).start()

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(begin(), loop).result(60)
    try:
        yield receiver
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(90)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()
