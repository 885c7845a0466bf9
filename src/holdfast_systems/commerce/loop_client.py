"""The HTTP client of a service: one for each event loop that uses it, closed when that loop ends."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from holdfast.http import ANYWHERE, HttpClient, Pool, Timeouts

CONNECTIONS_MAX = 256
IDLE_S = 15.0


class LoopClient:
    """Hands out the client of the running loop. It goes to services that the settings name, so it may go anywhere."""

    def __init__(self, timeouts: Timeouts, *, idle_s: float = IDLE_S) -> None:
        """
        Args:
            idle_s: how long an unused connection is kept. Shorter than the callee does, where a write must not be
                sent into a connection that is just being closed.
        """
        pool = Pool(connections_max=CONNECTIONS_MAX, per_host_max=CONNECTIONS_MAX, idle_s=idle_s)
        self._pattern = HttpClient(reach=ANYWHERE, timeouts=timeouts, pool=pool)
        self._held: WeakKeyDictionary[asyncio.AbstractEventLoop, _Held] = WeakKeyDictionary()
        self.sync = self._pattern.sync
        """The same for code that blocks, such as jobs."""

    @property
    def here(self) -> HttpClient:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        held = self._held.get(loop)
        if held is None or held.closed:
            held = self._held[loop] = _Held(self._pattern.twin())
        return held.client

    def close(self) -> None:
        """Close the connections of code that blocks; those of a loop are closed with it."""
        self.sync.close()


class _Held:
    """One loop's client."""

    def __init__(self, client: HttpClient) -> None:
        self.client = client
        self.closed = False
        # The tasks of a loop are cancelled before it ends: that is when the connections are to be closed.
        self._end = asyncio.create_task(self._until_cancelled(), name="holdfast-commerce-client")

    async def _until_cancelled(self) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.closed = True
            await self.client.close()
