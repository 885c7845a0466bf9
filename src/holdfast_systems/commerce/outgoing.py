"""An outgoing HTTP client for a service: made on the event loop that serves it, closed from anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.http import ANYWHERE, HttpClient, Pool

IDLE_S = 2.0
"""Shorter than servers keep an idle connection, so that a write meets none that is just being closed."""
CLOSE_S_MAX = 10.0


class LoopClient:
    """Holds the client of one service; its loop is the one that uses it first."""

    def __init__(self) -> None:
        self._client: HttpClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def client(self) -> HttpClient:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._client, self._loop = HttpClient(reach=ANYWHERE, pool=Pool(idle_s=IDLE_S)), loop
        return self._client

    @asynccontextmanager
    async def lifespan(self, _: Any) -> AsyncIterator[None]:
        """Close the client when the application ends; for servers that run lifespans."""
        try:
            yield
        finally:
            client, self._client = self._client, None
            if client is not None:
                await client.close()

    def close(self) -> None:
        """Close the client from outside its loop; nothing where the lifespan has closed it."""
        client, self._client, loop = self._client, None, self._loop
        if client is None or loop is None or loop.is_closed():
            return
        if loop.is_running():
            asyncio.run_coroutine_threadsafe(client.close(), loop).result(CLOSE_S_MAX)
        else:
            loop.run_until_complete(client.close())
