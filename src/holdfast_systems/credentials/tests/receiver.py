"""A receiver on loopback that answers as it is told, one answer after the other, and keeps what it got."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Say:
    """An answer to give; without a status there is none, and the connection is cut."""

    status: int | None = 200
    body: bytes = b'{"processed": 1}'
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Receiver:
    url: str
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answers: deque[Say] = field(default_factory=deque)
    always: Say = Say()
    judge: Callable[[bytes], Say | None] = lambda _: None
    """What to answer to a body before all else; None leaves it to the others."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            say = receiver.judge(body) or (receiver.answers.popleft() if receiver.answers else receiver.always)
            if say.status is None:
                self.close_connection = True
                return
            self.send_response(say.status)
            for name, value in {**say.headers, "Content-Length": str(len(say.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(say.body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}/v1/platforms/gotong_royong/webhook"
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
