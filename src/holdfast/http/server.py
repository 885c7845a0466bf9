"""The HTTP server of a serving process: uvicorn with limits on connections, on time and on log lines.

Needs uvicorn, which is an extra.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from socket import socket

import uvicorn

from holdfast.base import limits
from holdfast.http.asgi import Application
from holdfast.http.connection_limits import LimitedConnection, sweep
from holdfast.http.descriptors import raise_limit
from holdfast.http.repeated_logs import limit_repeats

BACKLOG = 128
"""Maximum number of connections accepted in one go, and of log lines written where accepting fails."""
SWEEP_TICKS = 5
"""Number of ticks, of a tenth of a second, between two checks of the connections."""
LOGGERS = ("uvicorn.error", "asyncio", "holdfast.http.connections")


class Server(uvicorn.Server):
    """A server that leaves signals to its owner, says when it has begun, and closes connections that are overdue."""

    def __init__(self, app: Application, *, stop_s_max: float) -> None:
        """
        Args:
            stop_s_max: how long requests may take to end once the server stops.
        """
        raise_limit()
        super().__init__(_config(app, stop_s_max))
        # After the configuration, which sets the loggers up.
        limit_repeats(*LOGGERS)
        self.begun = asyncio.Event()

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Begin to accept connections."""
        await super().startup(sockets)
        self.begun.set()

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second; True ends the server."""
        if counter % SWEEP_TICKS == 0:
            sweep(self.server_state.connections)
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def _config(app: Application, stop_s_max: float) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=LimitedConnection,
        lifespan="off",  # the owner's: a part that does not start is told before anything is printed
        log_config=None,  # its records go where all others go
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a client that names another address must not be believed
        # Without it, a connection's later requests may run in the context of an earlier one.
        reset_contextvars=True,
        backlog=BACKLOG,
        timeout_keep_alive=int(limits().keep_alive_s),
        timeout_graceful_shutdown=int(stop_s_max),
    )
