"""A TCP proxy on loopback that breaks connections on purpose, between any client and any server.

It runs in a thread of its own, so that sync and async tests use it alike. Faults are switched while it runs and act on
open connections as well as on new ones, unless said otherwise.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

from holdfast.testing.ports import listening_socket
from holdfast.testing.processes import wait_until
from holdfast.testing.proxy_connection import ProxyConnection, Traffic
from holdfast.testing.proxy_faults import COMMIT, ProxyFaults

__all__ = ["COMMIT", "FaultProxy", "ProxyFaults"]

T = TypeVar("T")

CALL_S_MAX = 60.0


class FaultProxy:
    """A proxy in front of `upstream_port`; without faults it forwards every byte.

    ```python
    with FaultProxy(server.port) as proxy:
        connection = psycopg.connect(host="127.0.0.1", port=proxy.port, user="postgres")
        proxy.set(lose_reply=COMMIT, times=1)
    ```
    """

    def __init__(self, upstream_port: int, *, upstream_host: str = "127.0.0.1") -> None:
        self.upstream = (upstream_host, upstream_port)
        """Where new connections lead; may be changed at any time."""
        self._traffic = Traffic()
        self._listener: socket.socket | None = listening_socket()
        self.port: int = self._listener.getsockname()[1]
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast-fault-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._apply(ProxyFaults()))
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_S_MAX)
        self._loop.close()

    @property
    def triggered(self) -> int:
        """How many connections have been cut or have lost something since the last `set()`."""
        return self._traffic.triggered

    @property
    def open_connections(self) -> int:
        return len(self._traffic.connections)

    def set(self, **faults: Any) -> None:
        """Let exactly these faults be in force, as named in `ProxyFaults`, when this returns."""
        self._call(self._apply(ProxyFaults(**faults)))

    def heal(self) -> None:
        """End all faults; what was held back flows again."""
        self.set()

    def reset_connections(self) -> None:
        """Reset the connections that are open now; new ones are welcome."""
        self._call(self._reset())

    def wait_triggered(self, times: int = 1, *, within_s: float = CALL_S_MAX) -> None:
        """Return when a cut or a loss has happened this many times.

        Raises:
            TimeoutError: it did not.
        """
        wait_until(lambda: self.triggered >= times, within_s=within_s, what=f"the fault struck {times} times")

    def _call(self, step: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(CALL_S_MAX)

    async def _apply(self, faults: ProxyFaults) -> None:
        self._traffic.begin(faults)
        if faults.refuse:
            self._stop_listening()
        else:
            self._listen()
        if faults.reset:
            await self._reset()

    def _listen(self) -> None:
        listener = self._listener = self._listener or listening_socket(self.port)
        listener.setblocking(False)
        self._loop.add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        # At once: a task that waits for the connection could be cancelled when it has just been made, and lose it.
        try:
            client, _ = listener.accept()
        except OSError:
            return  # the client has gone away
        client.setblocking(False)
        connection = ProxyConnection(client, self.upstream, self._traffic)
        task = self._loop.create_task(connection.serve())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # A task that is cancelled before its first step cannot close its socket itself.
        task.add_done_callback(lambda _, socket=client: socket.close())  # type: ignore[misc]

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    async def _reset(self) -> None:
        # All of them without a pause: while the proxy waits for one, another may end by itself, and its socket with it.
        ending = {connection.reset() for connection in self._traffic.connections}
        if ending:
            await asyncio.wait(ending)

    async def _end(self) -> None:
        self._stop_listening()
        for task in tuple(self._tasks):
            await _cancelled(task)


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
