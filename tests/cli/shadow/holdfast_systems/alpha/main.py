"""Alpha, put together."""

from __future__ import annotations

import json
import os
import signal
import threading
from typing import Any

from holdfast.http.health import Check
from holdfast.http.operator import OperatorOnly
from holdfast.http.system import Ground, System
from holdfast.worker import Handlers, Job, QueueSettings
from holdfast_systems.alpha.faults import ALPHA

never = threading.Event()


async def page(scope: Any, receive: Any, send: Any) -> None:
    """Says what it sees; it has a lifespan of its own."""
    if scope["type"] == "lifespan":
        await receive()
        scope["state"]["begun"] = "yes"
        await send({"type": "lifespan.startup.complete"})
        await receive()
        return await send({"type": "lifespan.shutdown.complete"})
    seen = {name: scope[name] for name in ("path", "root_path", "state")}
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    return await send({"type": "http.response.body", "body": json.dumps(seen).encode()})


async def outside(scope: Any, receive: Any, send: Any) -> None:
    """A stand-in that knows nothing of lifespans."""
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"from outside"})


def build(ground: Ground) -> System:
    handlers = Handlers()
    handlers.serve(QueueSettings("alpha"))
    handlers.enqueue_by_clock("alpha.tick", "0 0 1 1 *", kind="alpha.hello", queue="alpha")
    life = ground.folder / "life.txt"

    def note(word: str) -> None:
        with life.open("a") as file:
            file.write(f"{word}\n")

    @handlers.handle("alpha.hello")
    def hello(job: Job) -> str:
        return f"hello {job.payload} from {ground.address}"

    @handlers.handle("alpha.stop")
    def stop(job: Job) -> str:
        """Asks its own process to stop, and takes a moment to finish."""
        os.kill(os.getpid(), signal.SIGTERM)
        never.wait(0.2)
        return "finished"

    @handlers.handle("alpha.stuck")
    def stuck(job: Job) -> None:
        note("stuck")
        never.wait()

    def start() -> None:
        if ground.environment.get("ALPHA_FAILS") == "start":
            raise RuntimeError("the wind is wrong")
        note("started")

    return System(
        name="alpha",
        title="The first letter",
        catalogs=[ALPHA],
        parts={"": page, "secret": OperatorOnly(page, ground.token)},
        handlers=handlers,
        standins={"outside": outside},
        checks={"pulse": Check(lambda: "ALPHA_SICK" not in ground.environment, vital=False)},
        says=[f"look at {ground.address}/page"],
        start=start,
        stop=lambda: note("stopped"),
    )
