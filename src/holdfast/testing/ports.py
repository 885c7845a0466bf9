"""Ports on loopback for servers that tests take down and bring back."""

from __future__ import annotations

import socket

from holdfast.base import REAL

PORT_TRIES = 100
PORT_LOWEST = 10_000
PORT_BELOW = 32_768
BACKLOG = 128


def listening_socket(port: int | None = None) -> socket.socket:
    """A socket that listens on loopback, at the given port or at one that stays ours while it is closed.

    The port lies below those the kernel lends to outgoing connections: otherwise a client that keeps calling while
    the server is away can be lent that very port, and meet itself.
    """
    for _ in range(PORT_TRIES):
        chance = int.from_bytes(REAL.token_bytes(4)) % (PORT_BELOW - PORT_LOWEST)
        # With the protocol named, asyncio sends small replies at once.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", PORT_LOWEST + chance if port is None else port))
            listener.listen(BACKLOG)
            return listener
        except OSError:
            listener.close()
            if port is not None:
                raise
    raise OSError(f"no free port between {PORT_LOWEST} and {PORT_BELOW}")


def free_port() -> int:
    """A port on which nobody listens at the moment."""
    with listening_socket() as listener:
        return int(listener.getsockname()[1])
