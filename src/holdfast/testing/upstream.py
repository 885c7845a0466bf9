"""An HTTP server on loopback that misbehaves as it is told, in more than sixty ways.

It runs in a thread of its own, so that sync and async tests use it alike. What it does is chosen by the path:

```python
with BadUpstream() as upstream:
    upstream.url("gzip_bomb")                            # http://127.0.0.1:…/gzip_bomb
    upstream.script("orders", "status_503", "ok")        # /orders fails once, then works
    upstream.tls_url(Certificate.EXPIRED, "ok")          # https with such a certificate
```
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakSet

from holdfast.testing.exchange import HEAD_BYTES_MAX, Asked, Behaviour, Exchange, read_request, reply_bytes
from holdfast.testing.ports import free_port, listening_socket
from holdfast.testing.upstream_behaviours import BEHAVIOURS

if TYPE_CHECKING:
    from ssl import SSLContext

    from holdfast.testing.certificates import Authority, Certificate

__all__ = ["BEHAVIOURS", "Asked", "BadUpstream", "Exchange"]

T = TypeVar("T")

CALL_S_MAX = 60.0
ASKED_KEPT_MAX = 1_000
FILLERS = 3
TURNS = 4
"""Number of turns of the loop after which a connection has begun, or is gone; one with TLS takes the most."""


class BadUpstream:
    """A server that does to each request what its path names; see `BEHAVIOURS` for the names."""

    def __init__(self) -> None:
        self.asked: deque[Asked] = deque(maxlen=ASKED_KEPT_MAX)
        """The requests that arrived, the newest last."""
        self._behaviours = dict(BEHAVIOURS)
        self._listener = listening_socket()
        self.port: int = self._listener.getsockname()[1]
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: WeakSet[asyncio.StreamWriter] = WeakSet()
        self._servers: list[asyncio.Server] = []
        self._tls_ports: dict[str, int] = {}
        self._authority: Authority | None = None
        self._full: list[socket.socket] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast-bad-upstream", daemon=True)

    def start(self) -> Self:
        """Begin to serve; `with` does the same."""
        self._thread.start()
        self._call(self._serve(self._listener))
        return self

    def stop(self) -> None:
        """Cut every connection off and end."""
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_S_MAX)
        self._loop.close()
        for filler in self._full:
            filler.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """The exact host and port, for a list of what is allowed."""
        return f"127.0.0.1:{self.port}"

    @property
    def open_connections(self) -> int:
        return len(self._tasks)

    def url(self, name: str) -> str:
        """Where the behaviour of that name is met.

        Raises:
            KeyError: there is none.
        """
        return f"http://{self.address}/{self._known(name)}"

    def script(self, path: str, *names: str) -> str:
        """Let each request to the path meet the next of these behaviours, and the last one ever after."""
        waiting = deque(self._behaviours[self._known(name)] for name in names)

        async def follow(exchange: Exchange) -> None:
            await (waiting.popleft() if len(waiting) > 1 else waiting[0])(exchange)

        return self.behave(path, follow)

    def answer(self, path: str, body: bytes = b"", *, status: int = 200, **headers: str) -> str:
        """Let the path answer with exactly this; `retry_after="5"` is the header Retry-After."""
        reply = reply_bytes(body, status=status, **headers)

        async def send(exchange: Exchange) -> None:
            await exchange.write(reply)

        return self.behave(path, send)

    def behave(self, path: str, behaviour: Behaviour) -> str:
        """Let the path behave as this coroutine function does; tells the address."""
        self._behaviours[path.strip("/")] = behaviour
        return self.url(path.strip("/"))

    # -- what no path can ask for --------------------------------------------------------------------------------

    def refused_url(self) -> str:
        """Where nobody listens."""
        return f"http://127.0.0.1:{free_port()}/"

    def hanging_url(self) -> str:
        """Where a connection is never made: the queue of those that wait for one is full."""
        if not self._full:
            listener = listening_socket()
            listener.listen(0)
            self._full.append(listener)
            for _ in range(FILLERS):
                filler = socket.socket()
                filler.setblocking(False)
                filler.connect_ex(listener.getsockname())
                self._full.append(filler)
        return f"http://127.0.0.1:{self._full[0].getsockname()[1]}/"

    def silent_tls_url(self) -> str:
        """Where a connection is made and TLS is never answered."""
        if "silent" not in self._tls_ports:
            self._tls_ports["silent"] = self._call(self._open(None, first=b""))
        return f"https://127.0.0.1:{self._tls_ports['silent']}/"

    def tls_url(self, kind: Certificate, name: str, *, host: str = "127.0.0.1") -> str:
        """Where the behaviour is met over TLS, with such a certificate; needs the `cryptography` package."""
        if kind not in self._tls_ports:
            context = self._authorities().serving(kind, hosts=("127.0.0.1", "localhost", "upstream.example"))
            self._tls_ports[kind] = self._call(self._open(context))
        return f"https://{host}:{self._tls_ports[kind]}/{self._known(name)}"

    def plain_behind_tls_url(self) -> str:
        """Where https is asked for and plain HTTP answers."""
        if "plain" not in self._tls_ports:
            self._tls_ports["plain"] = self._call(self._open(None, first=reply_bytes(status=400)))
        return f"https://127.0.0.1:{self._tls_ports['plain']}/"

    def trusting(self) -> SSLContext:
        """A client's TLS context that trusts the certificates of this server."""
        return self._authorities().trusting()

    def _authorities(self) -> Authority:
        if self._authority is None:
            from holdfast.testing.certificates import Authority

            self._authority = Authority()
        return self._authority

    def _known(self, name: str) -> str:
        if name not in self._behaviours:
            raise KeyError(f"no behaviour is named {name!r}; there are: {', '.join(sorted(self._behaviours))}")
        return name

    def _call(self, step: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(CALL_S_MAX)

    async def _open(self, context: SSLContext | None, *, first: bytes | None = None) -> int:
        listener = listening_socket()
        port: int = listener.getsockname()[1]
        await self._serve(listener, context, first=first)
        return port

    async def _serve(
        self, listener: socket.socket, context: SSLContext | None = None, *, first: bytes | None = None
    ) -> None:
        """Answer connections; with `first`, each gets these bytes, and what it says is not listened to."""

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None  # asyncio runs every connection in a task
            self._tasks.add(task)
            self._writers.add(writer)
            try:
                # Clients that go away in the middle are what this server is for.
                with suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError, asyncio.CancelledError):
                    if first is None:
                        await self._converse(reader, writer)
                    else:
                        writer.write(first)
                        await _until_gone(reader)
            finally:
                self._tasks.discard(task)
                writer.close()

        self._servers.append(await asyncio.start_server(connected, sock=listener, ssl=context, limit=HEAD_BYTES_MAX))

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (asked := await read_request(reader)) is not None:
            self.asked.append(asked)
            exchange = Exchange(reader, writer, asked)
            behaviour = self._behaviours.get(asked.name)
            if behaviour is None:
                await exchange.reply(b"{}", status=404)
            else:
                await behaviour(exchange)
            if exchange.over:
                return

    async def _end(self) -> None:
        # A server that is closed forgets a connection which it has accepted and not begun; so first it stops accepting.
        for server in self._servers:
            for listener in server.sockets:
                self._loop.remove_reader(listener.fileno())
        await _turns()
        for server in self._servers:
            server.close()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for writer in tuple(self._writers):
            writer.transport.abort()
        await _turns()


async def _turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def _until_gone(reader: asyncio.StreamReader) -> None:
    while await reader.read(HEAD_BYTES_MAX):
        pass
