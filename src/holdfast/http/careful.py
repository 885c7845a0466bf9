"""Where aiohttp trusts the other side, or itself, more than we do.

It repeats a request on its own when a connection breaks; it gives a reply that nobody asked for to the next request on
the same connection; it listens to informational replies for as long as they come; and when it closes a connection, it
waits for the other side to take what was not sent yet.
"""

from __future__ import annotations

from typing import Any

import aiohttp
from aiohttp import http_exceptions

INFORMATIONAL_MAX = 16
"""More 1xx replies to one request are a way to keep us busy."""
SPOILED_MAX = 8
"""After so many connections that brought a reply before they were asked, the call fails."""


class Interrupted(aiohttp.ClientError):
    """Stands around an error after which aiohttp would send the same request again."""


class Spoiled(aiohttp.ClientConnectionError):
    """The connection had a reply before it was asked; nothing was sent on it."""


async def sent_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Send each request once: whether it is repeated is for the link to decide, and a write may need a key."""
    for _ in range(SPOILED_MAX):
        try:
            return await handler(request)
        except Spoiled:
            continue
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            raise Interrupted from error
    raise Spoiled("every connection had a reply before it was asked")


class CarefulRequest(aiohttp.ClientRequest):
    """A request that goes out only on a connection that is silent."""

    async def send(self, conn: Any) -> aiohttp.ClientResponse:
        """Send it.

        Raises:
            Spoiled: the connection has a reply already, which belongs to nobody.
        """
        if len(conn.protocol):
            conn.close()
            raise Spoiled("the connection had a reply before it was asked")
        try:
            return await super().send(conn)
        except BaseException:
            abort(conn)
            raise


class CarefulResponse(aiohttp.ClientResponse):
    """A response that does not wait for ever behind informational ones."""

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        """Read up to the end of the headers."""
        protocol = connection.protocol
        protocol.read = _counted(protocol.read)
        try:
            return await super().start(connection)
        except BaseException:
            abort(connection)
            raise
        finally:
            del protocol.read

    def close(self) -> None:
        """Give the reply up, and its connection with it."""
        abort(self.connection)
        super().close()


def abort(connection: Any) -> None:
    """Close the connection now, whatever has not been sent yet."""
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


def _counted(read: Any) -> Any:
    left = INFORMATIONAL_MAX + 1

    async def counted() -> Any:
        nonlocal left
        if left == 0:
            raise http_exceptions.HttpProcessingError(message="too many informational replies")
        left -= 1
        return await read()

    return counted
