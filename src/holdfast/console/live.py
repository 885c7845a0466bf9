"""Live updates: server-sent events that bring the parts of an open page again when they have changed.

Always true: there are never more than `STREAMS_MAX` streams; each shows it is alive, ends by itself after a while (the
browser asks again), when the browser goes, when whoever looks may no longer, and when the console is closed.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

from holdfast.base import encode, monotonic_s
from holdfast.catalog import Failure
from holdfast.console.faults import CONSOLE_BUSY
from holdfast.console.layout import shown
from holdfast.console.page import Desk
from holdfast.console.routes import page_for
from holdfast.console.visit import LIVE_OF, Visit, read_query
from holdfast.http.asgi import Receive, Send
from holdfast.http.aside import aside

if TYPE_CHECKING:
    import asyncio

Allowed = Callable[[], Awaitable[bool]]
"""Whether whoever watches may go on."""

STREAMS_MAX = 32
LOOK_S = 2.0
"""So often a page is made again."""
HEARTBEAT_S = 15.0
STREAM_S_MAX = 600.0
AGAIN_MS = 2_000
"""After so long the browser asks again."""


class Streams:
    """The open streams of one console."""

    def __init__(self, desk: Desk, *, look_s: float = LOOK_S) -> None:
        self._desk = desk
        self._look_s = look_s
        self._lock = threading.Lock()
        self._open: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._made: dict[tuple[str, str], tuple[float, dict[str, str]]] = {}
        self._closed = False

    async def serve(
        self,
        visit: Visit,
        receive: Receive,
        send: Send,
        headers: Mapping[str, str],
        *,
        allowed: Allowed,
    ) -> None:
        """Send what changes on the page that the visit names, until somebody has enough.

        Raises:
            Failure: CONSOLE_BUSY; or what the page itself raises, before anything was sent.
        """
        import asyncio

        ended = asyncio.Event()
        self._take_place(ended, asyncio.get_running_loop())
        gone = asyncio.ensure_future(_gone(receive, ended))
        try:
            page = _visit_of(visit)
            parts = await self._parts(page)
            given = {"content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no", **headers}
            written = [(name.encode(), value.encode()) for name, value in given.items()]
            await send({"type": "http.response.start", "status": 200, "headers": written})
            await _say(send, f"retry: {AGAIN_MS}\n\n")
            await self._follow(page, parts, ended, send, allowed)
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone
            with self._lock:
                self._open.pop(ended, None)

    def close(self) -> None:
        """End all streams; from now on there are none. May be called from any thread."""
        with self._lock:
            self._closed = True
            still_open = list(self._open.items())
        for ended, loop in still_open:
            with suppress(RuntimeError):  # the loop has ended, and the stream with it
                loop.call_soon_threadsafe(ended.set)

    def _take_place(self, ended: asyncio.Event, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            if self._closed or len(self._open) >= STREAMS_MAX:
                raise CONSOLE_BUSY(retry_after_s=30.0)
            self._open[ended] = loop

    async def _follow(
        self,
        page: Visit,
        parts: dict[str, str],
        ended: asyncio.Event,
        send: Send,
        allowed: Allowed,
    ) -> None:
        import asyncio

        begun_s = said_s = monotonic_s()
        # The page may have changed between its own making and this one: everything is said once.
        before: dict[str, str] = {}
        while not ended.is_set() and await allowed() and monotonic_s() - begun_s < STREAM_S_MAX:
            changed = {name: text for name, text in parts.items() if before.get(name) != text}
            for name, text in changed.items():
                await _say(send, f"event: part\ndata: {encode({'id': name, 'html': text})}\n\n")
            if changed:
                said_s = monotonic_s()
            elif monotonic_s() - said_s >= HEARTBEAT_S:
                await _say(send, ": alive\n\n")
                said_s = monotonic_s()
            before = parts
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), self._look_s)
            if not ended.is_set():
                # A database that cannot be asked for a moment leaves the page as it is.
                with suppress(Failure):
                    parts = await self._parts(page)

    async def _parts(self, page: Visit) -> dict[str, str]:
        """The parts as they are now. They hold no form, so whoever looks at the same page is shown the same."""
        key = (page.root, page.own)
        made_s, parts = self._made.get(key, (0.0, {}))
        now_s = monotonic_s()
        if not parts or not 0 <= now_s - made_s < self._look_s / 2:
            made = await aside(lambda: page_for(self._desk, page))
            parts = {part.id: shown(part) for part in made.live}
            if len(self._made) >= STREAMS_MAX:
                self._made.clear()
            self._made[key] = (now_s, parts)
        return parts


def _visit_of(visit: Visit) -> Visit:
    """The page whose parts are wanted: `/live?of=/jobs?state=failed`."""
    path, _, query = visit.query.get(LIVE_OF, "/").partition("?")
    return replace(visit, path=unquote(path), query=read_query(query))


async def _gone(receive: Receive, ended: asyncio.Event) -> None:
    """Notice that the browser has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    ended.set()


async def _say(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
