"""The client for code that blocks: one event loop in one thread, shared by every sync client of the process.

Always true: the caller's deadline, key, trace and world hold inside; a caller that is interrupted cancels its call;
when the last client is closed, the thread ends.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractContextManager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload
from weakref import WeakSet

from holdfast.catalog import StatusTable
from holdfast.catalog.core import CONCURRENCY_EXCEEDED
from holdfast.guard import Link
from holdfast.http.reply import Reply
from holdfast.policy import left_s

if TYPE_CHECKING:
    from yarl import URL

    from holdfast.http.client import HttpClient
    from holdfast.http.outgoing import Sending

T = TypeVar("T")

CALLS_MAX = 256
"""Maximum number of calls under way at once; further ones wait for their turn, at most as long as they have time."""
WAIT_S_MAX = 60.0
CLOSE_S_MAX = 10.0


class SyncClient:
    """Sends and calls as `HttpClient` does, and blocks until it is done. Get one from `HttpClient.sync`."""

    def __init__(self, pattern: HttpClient) -> None:
        self._pattern = pattern
        self._client: HttpClient | None = None
        self._door: _Door | None = None
        self.closed = False
        _open_clients.add(self)

    def send(self, method: str, url: str | URL, **options: Unpack[Sending]) -> Reply:
        """Send one request, once, and return what came back, whatever its status; see `HttpClient.send`."""
        client, door = self._ready()
        return door.run(lambda: client.send(method, url, **options))

    @overload
    def call(
        self,
        link: Link,
        method: str,
        url: str | URL,
        *,
        key: str | None = None,
        read: None = None,
        reads: bool = False,
        statuses: StatusTable | None = None,
        **options: Unpack[Sending],
    ) -> Reply: ...
    @overload
    def call(
        self,
        link: Link,
        method: str,
        url: str | URL,
        *,
        key: str | None = None,
        read: Callable[[Reply], T],
        reads: bool = False,
        statuses: StatusTable | None = None,
        **options: Unpack[Sending],
    ) -> T: ...
    def call(self, link: Link, method: str, url: str | URL, **said: Any) -> Any:
        """Send a request through the link; see `HttpClient.call`."""
        client, door = self._ready()
        return door.run(lambda: client.call(link, method, url, **said))

    def close(self) -> None:
        """Close every connection; the client cannot be used again. Closing twice is closing once."""
        with _lock:
            if self.closed:
                return
            self.closed = True
            client, door = self._client, self._door
            self._client = self._door = None
        _open_clients.discard(self)
        if client is not None and door is not None:
            try:
                if door is _door:
                    door.run(client.close)
            finally:
                _leave(door)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ready(self) -> tuple[HttpClient, _Door]:
        with _lock:
            if self.closed:
                raise RuntimeError("this client is closed")
            if self._client is None or self._door is None or self._door is not _door:
                self._door = _enter()
                self._client = self._pattern.twin()
            return self._client, self._door


class _Door:
    """A thread that runs an event loop, and the way into it."""

    def __init__(self) -> None:
        self.users = 0
        self._places = threading.BoundedSemaphore(CALLS_MAX)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast-http", daemon=True)
        self._thread.start()

    def run(self, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine in the loop, in a copy of the caller's context, and wait for it.

        Raises:
            RuntimeError: the caller is the loop itself, which would wait for itself.
            Failure: CONCURRENCY_EXCEEDED, because too many calls are under way.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("a sync client cannot be used inside its own event loop; await the async one")
        if not self._places.acquire(timeout=min(left_s(), WAIT_S_MAX)):
            raise CONCURRENCY_EXCEEDED(link="holdfast-http", retry_after_s=1.0, limit=CALLS_MAX)
        result: Future[T] = Future()
        begin = _Begin(self._loop, step, result)
        try:
            self._loop.call_soon_threadsafe(begin)
            return result.result()
        except BaseException:
            if not result.done():  # interrupted from outside, by Ctrl-C say
                self._loop.call_soon_threadsafe(begin.cancel)
            raise
        finally:
            self._places.release()
            # A traceback in the result holds this frame: without this the two would keep each other alive.
            del result, begin

    def stop(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_S_MAX)
        if not self._thread.is_alive():
            self._loop.close()


class _Begin:
    """Starts one call in the loop, in a copy of the context in which it was made."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, step: Callable[[], Coroutine[Any, Any, T]], result: Future[T]
    ) -> None:
        self._loop = loop
        self._step = step
        self._result = result
        self._context = copy_context()
        self._task: asyncio.Task[None] | None = None

    def __call__(self) -> None:
        self._task = self._loop.create_task(self._settle(), context=self._context)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _settle(self) -> None:
        try:
            value = await self._step()
        except BaseException as error:  # noqa: BLE001 - carried over to the caller's thread as it is
            self._result.set_exception(error)
        else:
            self._result.set_result(value)


_lock = threading.RLock()
_door: _Door | None = None
_open_clients: WeakSet[SyncClient] = WeakSet()
_orphans: list[object] = []


def opening() -> AbstractContextManager[bool]:
    """Held by a thread that opens a client, so that threads that ask at once get the same one."""
    return _lock


def _enter() -> _Door:
    """The door of this process, with one more user."""
    global _door
    if _door is None:
        _door = _Door()
    _door.users += 1
    return _door


def _leave(door: _Door) -> None:
    """One user less; the last one turns off the light."""
    global _door
    with _lock:
        door.users -= 1
        if door.users > 0 or door is not _door:
            return
        _door = None
    door.stop()


def _after_fork() -> None:
    """In a child, threads do not live on: the parent's door is forgotten, and its connections are left alone."""
    global _door, _lock
    _lock = threading.RLock()
    # Kept for ever: to collect them would close connections that belong to the parent.
    _orphans.append(_door)
    _orphans.extend(client._client for client in _open_clients)
    _door = None


@atexit.register
def _close_all() -> None:
    for client in tuple(_open_clients):
        client.close()


os.register_at_fork(after_in_child=_after_fork)
