"""A console that stands on loopback behind a real server, mounted below a path as it will be."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn

from holdfast.base import Secret
from holdfast.catalog import CORE
from holdfast.console import Console, console
from holdfast.console.faults import CONSOLE
from holdfast.store import Store
from holdfast.testing.ports import listening_socket

TOKEN = "operator-token-for-tests"
ROOT = "/console"
STOP_S = 60.0


def mounted(app: Any, root: str = ROOT) -> Any:
    """Serve the application below a path, and nothing elsewhere."""

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" or scope["path"].startswith(root):
            return await app({**scope, "root_path": root}, receive, send)
        await send({"type": "http.response.start", "status": 404, "headers": []})
        return await send({"type": "http.response.body", "body": b""})

    return outer


@dataclass(frozen=True, slots=True)
class Standing:
    """A console and where it stands."""

    address: str
    console: Console

    @property
    def port(self) -> int:
        return int(self.address.split(":")[2].split("/")[0])


@contextmanager
def standing(store: Store, **settings: Any) -> Iterator[Standing]:
    """A console behind uvicorn, on a port of its own."""
    with listening_socket() as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}{ROOT}"
        made = console(store, Secret(TOKEN), [CORE, CONSOLE], address=address, **settings)
        config = uvicorn.Config(
            mounted(made.app), log_level="critical", access_log=False, ws="none", timeout_graceful_shutdown=5
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield Standing(address, made)
        finally:
            made.close()
            server.should_exit = True
            thread.join(STOP_S)
            assert not thread.is_alive(), "the server does not stop"
