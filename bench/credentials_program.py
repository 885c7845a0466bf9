"""A party of the suite `credentials`, in a process of its own: `engine DATABASE`, or `sender DATABASE ENGINE_URL`.

Each writes one line when it is ready; the sender waits for a line before it begins. Both end when nobody writes to
them any more.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
from pathlib import Path

from holdfast.base import Secret
from holdfast.http.system import Ground, System
from holdfast.store import Store
from holdfast.worker import Worker
from holdfast_systems.credentials.main import build

SECRET = "a shared secret of the bench"
LIMIT = 1_000_000
SETTINGS = f"[platforms.gotong_royong]\nlimit = {LIMIT}\n"


def system(store: Store, part: str, engine_url: str | None = None) -> System:
    """One half, with a rate limit that nobody meets."""
    folder = Path(tempfile.mkdtemp())
    path = folder / "credentials.toml"
    path.write_text(SETTINGS)
    environment = {
        "HOLDFAST_CREDENTIALS_SECRET": SECRET,
        "HOLDFAST_CREDENTIALS_PARTS": part,
        "HOLDFAST_CREDENTIALS_SETTINGS": str(path),
        **({} if engine_url is None else {"HOLDFAST_CREDENTIALS_ENGINE_URL": engine_url}),
    }
    return build(
        Ground(store=store, folder=folder, address="http://127.0.0.1:9", token=Secret("t"), environment=environment)
    )


def engine(store: Store) -> None:
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    print(listener.getsockname()[1], flush=True)
    app = system(store, "engine").parts["engine"]
    config = uvicorn.Config(app, log_level="error", access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[listener])


def sender(store: Store, engine_url: str) -> None:
    half = system(store, "platform", engine_url)
    half.start()
    print("ready", flush=True)
    assert half.handlers is not None
    sys.stdin.readline()
    Worker(store, half.handlers).run()


def _end_with_parent() -> None:
    while sys.stdin.readline():
        pass
    os._exit(0)


def main() -> None:
    part, url, *rest = sys.argv[1:]
    store = Store.open(url)
    if part == "engine":
        threading.Thread(target=_end_with_parent, daemon=True).start()
        engine(store)
    else:
        sender(store, *rest)


if __name__ == "__main__":
    main()
