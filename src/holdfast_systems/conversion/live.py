"""Live status: a stream of server-sent events for each open page, as long as something is going to happen: to a job, or
to a gateway that gets none at the moment.

A stream ends by itself when all is done, or after a while, and the browser asks again. However many pages are open,
the store is asked no more often than every `LOOK_S` whether anything has changed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from holdfast.base import encode, monotonic_s, world
from holdfast.catalog import CORE
from holdfast_systems.conversion.conversions import Conversions

LOOK_S = 0.25
REFRESH_S = 5.0
"""Interval at which a listing is read anew even when nothing says that it changed: a deleted row is not reported."""
STREAM_S = 30.0
"""Maximum duration of one stream."""
STREAMS_MAX = 256
STREAMS_PER_OWNER_MAX = 4
"""A browser keeps six connections to one address for all its pages; some must be left for uploads."""
AGAIN_MS = 500
"""After this time a browser asks again for a stream that has ended."""
RETRY_AFTER_S = 5.0


class Live:
    """The streams of this process; they share one look at the store."""

    def __init__(self, conversions: Conversions) -> None:
        self._conversions = conversions
        self._owners: Counter[str] = Counter()
        self._lock = asyncio.Lock()
        self._looked_s = float("-inf")
        self._pulse: Any = None
        self._closed = False

    def close(self) -> None:
        """End every stream: the process is about to stop, and browsers ask again."""
        self._closed = True

    def open(self, owner: str) -> AsyncIterator[str]:
        """A stream for an owner's page: `jobs` events with the whole listing, and `rest` when all is done.

        Raises:
            Failure: CONCURRENCY_EXCEEDED; the page then asks now and then.
        """
        if self._owners.total() >= STREAMS_MAX or self._owners[owner] >= STREAMS_PER_OWNER_MAX:
            raise CORE["CONCURRENCY_EXCEEDED"](retry_after_s=RETRY_AFTER_S)
        return self._told(owner)

    async def _told(self, owner: str) -> AsyncIterator[str]:
        self._owners[owner] += 1
        try:
            yield f"retry: {AGAIN_MS}\n\n"
            async for listing in self._changes(owner):
                yield f"event: jobs\ndata: {encode(listing)}\n\n"
                if not (listing["active"] or listing["gateway"]["paused"]):
                    yield "event: rest\ndata: {}\n\n"
                    return
        finally:
            self._owners[owner] -= 1
            if not self._owners[owner]:
                del self._owners[owner]

    async def _changes(self, owner: str) -> AsyncIterator[dict[str, Any]]:
        """The owner's listing, now and whenever it has changed."""
        began_s = monotonic_s()
        seen: Any = None
        told: Any = None
        read_s = float("-inf")
        while not self._closed and monotonic_s() - began_s < STREAM_S:
            pulse = await self._look()
            if pulse != seen or monotonic_s() - read_s >= REFRESH_S:
                seen, read_s = pulse, monotonic_s()
                listing = await asyncio.to_thread(self._conversions.listing, owner)
                facts = {name: value for name, value in listing.items() if name != "now"}
                if facts != told:
                    told = facts
                    yield listing
            await world().pause(LOOK_S)

    async def _look(self) -> Any:
        """The pulse of the store, asked once for everybody."""
        async with self._lock:
            if monotonic_s() - self._looked_s >= LOOK_S:
                self._pulse = await asyncio.to_thread(self._conversions.pulse)
                self._looked_s = monotonic_s()
            return self._pulse
