"""Beta, put together."""

from __future__ import annotations

from typing import Any

from holdfast.http.system import Ground, System
from holdfast.worker import Handlers, Job, QueueSettings

PARTS = ("one", "two")


def part(name: str) -> Any:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": f"{name} below {scope['root_path']}".encode()})

    return application


def build(ground: Ground) -> System:
    handlers = Handlers()
    handlers.serve(QueueSettings("beta"))

    @handlers.handle("beta.hello")
    def hello(job: Job) -> str:
        return "hello from beta"

    parts = {name: part(name) for name in PARTS if ground.parts is None or name in ground.parts}
    return System(name="beta", title="Another", parts=parts, handlers=handlers)
