"""Beta, put together."""

from __future__ import annotations

from typing import Any

from holdfast.http.system import Ground, System
from holdfast.worker import Handlers, Job, QueueSettings


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

    return System(name="beta", title="Another", parts={"one": part("one"), "two": part("two")}, handlers=handlers)
