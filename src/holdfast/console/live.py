"""Live updates: server-sent events that bring the parts of an open page again when they have changed.

Always true: there are never more than `STREAMS_MAX` streams; each shows it is alive, ends by itself after a while (the
browser asks again), when the browser goes, when its visitor is no longer let in, and when the console is closed.
A stream sends nothing that is older than what its browser shows: the page has a version, which is the time on the
database's clock before it was read, and so has every part; in a stream they only go forward, whichever process sends.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
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
"""Whether the visitor of a stream is still let in."""

STREAMS_MAX = 32
LOOK_S = 2.0
"""Interval at which the parts of an open page are made again."""
HEARTBEAT_S = 15.0
STREAM_S_MAX = 600.0
AGAIN_MS = 2_000
"""Time in milliseconds after which the browser asks again when a stream has ended."""
SINCE = "since"
"""In the address of a stream: the version of the page that is open."""
VERSION_DIGITS_MAX = 16


class Streams:
    """The open streams of one console."""

    def __init__(self, desk: Desk, *, look_s: float = LOOK_S) -> None:
        self._desk = desk
        self._look_s = look_s
        self._lock = threading.Lock()
        self._open: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._made: dict[tuple[str, str], _Made] = {}
        self._forgotten = 0
        """How often the cache was dropped: what was begun before is not put into it after."""
        self._closed = False

    async def serve(
        self,
        visit: Visit,
        receive: Receive,
        send: Send,
        headers: Mapping[str, str],
        *,
        seen: str = "",
        allowed: Allowed,
    ) -> None:
        """Send what changes on the page that the visit names, until somebody has enough.

        Args:
            seen: the version of what the browser got last from a stream; empty when it got nothing.

        Raises:
            Failure: CONSOLE_BUSY; or what the page itself raises, before anything was sent.
        """
        import asyncio

        ended = asyncio.Event()
        self._take_place(ended, asyncio.get_running_loop())
        gone = asyncio.ensure_future(_gone(receive, ended))
        try:
            page = _visit_of(visit)
            made = await self._parts(page, max(_version(seen), _version(visit.query.get(SINCE, ""))))
            given = {"content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no", **headers}
            written = [(name.encode(), value.encode()) for name, value in given.items()]
            await send({"type": "http.response.start", "status": 200, "headers": written})
            await _say(send, f"retry: {AGAIN_MS}\n\n")
            await self._follow(page, made, ended, send, allowed)
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

    def forget(self) -> None:
        """Drop what was made before: something has just been changed. May be called from any thread."""
        with self._lock:
            self._forgotten += 1
            self._made.clear()

    def _take_place(self, ended: asyncio.Event, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            if self._closed or len(self._open) >= STREAMS_MAX:
                raise CONSOLE_BUSY(retry_after_s=30.0)
            self._open[ended] = loop

    async def _follow(self, page: Visit, made: _Made, ended: asyncio.Event, send: Send, allowed: Allowed) -> None:
        import asyncio

        begun_s = said_s = monotonic_s()
        # The page may have changed between its own making and this one: everything is said once.
        before: Mapping[str, str] = {}
        while not ended.is_set() and await allowed() and monotonic_s() - begun_s < STREAM_S_MAX:
            changed = {name: text for name, text in made.parts.items() if before.get(name) != text}
            for name, text in changed.items():
                told = encode({"id": name, "version": made.version, "html": text})
                await _say(send, f"event: part\nid: {made.version}\ndata: {told}\n\n")
            if changed:
                said_s = monotonic_s()
            elif monotonic_s() - said_s >= HEARTBEAT_S:
                await _say(send, ": alive\n\n")
                said_s = monotonic_s()
            before = made.parts
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), self._look_s)
            if not ended.is_set():
                # A database that cannot be asked for a moment leaves the page as it is.
                with suppress(Failure):
                    made = await self._parts(page, made.version)

    async def _parts(self, page: Visit, version_min: int) -> _Made:
        """The parts as they are now. They hold no form, so every visitor of the same page is shown the same.

        What another stream has had made is used again while it is fresh, and not older than `version_min`.
        """
        key = (page.root, page.own)
        with self._lock:
            kept, forgotten = self._made.get(key), self._forgotten
        now_s = monotonic_s()
        if kept is not None and kept.version >= version_min and 0 <= now_s - kept.made_s < self._look_s / 2:
            return kept
        shown_page = await aside(lambda: page_for(self._desk, page))
        if shown_page.refused is not None:
            raise shown_page.refused
        # This was read after the browser had got the other: it is newer, even where the clock was set back.
        version = max(shown_page.version, version_min)
        made = _Made(now_s, version, {part.id: shown(part) for part in shown_page.live})
        with self._lock:
            if forgotten == self._forgotten:
                if len(self._made) >= STREAMS_MAX:
                    self._made.clear()
                self._made[key] = made
        return made


@dataclass(frozen=True, slots=True)
class _Made:
    """The parts of a page, when they were made, and as of when they are."""

    made_s: float
    version: int
    parts: Mapping[str, str]


def _version(text: str) -> int:
    """A version as a browser sends it; 0 when it is not one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= VERSION_DIGITS_MAX else 0


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
