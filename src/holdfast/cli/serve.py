"""`holdfast serve`: the site in one process, until it is told to stop.

Always true: an address that is printed accepts connections, and Ctrl-C or SIGTERM ends with code 0.
"""

from __future__ import annotations

import errno
import signal
import socket
from typing import Annotated

import typer

from holdfast.catalog import CORE
from holdfast.http import site

BACKLOG_MAX = 2_048
STOP_S_MAX = 10


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(help="The port to listen on; 0 takes any free one.", envvar="HOLDFAST_PORT", min=0, max=65_535),
    ] = 8_080,
) -> None:
    """Start what exists so far: the index, a page for every fault, and the health check."""
    import uvicorn  # an extra of its own: the message about it comes from `main`

    try:
        listener = _listener(host, port)
    except OSError as refused:
        typer.echo(f"holdfast: {_refusal(refused, host, port)}", err=True)
        raise typer.Exit(1) from None
    server = uvicorn.Server(
        uvicorn.Config(
            site([CORE]),
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=STOP_S_MAX,
        )
    )

    def stop(*_: object) -> None:
        server.should_exit = True

    # Uvicorn raises the signal again once it has stopped; with a handler of ours that is not a death by signal.
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    _announce(listener)
    with listener:
        server.run(sockets=[listener])
    typer.echo("Stopped.")


def _listener(host: str, port: int) -> socket.socket:
    """A socket that accepts connections already, so that what is printed next is true."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG_MAX)
    except OSError:
        listener.close()
        raise
    return listener


def _refusal(refused: OSError, host: str, port: int) -> str:
    if refused.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use; choose another with --port or HOLDFAST_PORT"
    return f"cannot listen on port {port} of {host}: {refused.strerror or refused}"


def _announce(listener: socket.socket) -> None:
    host, port = listener.getsockname()[:2]
    address = f"http://[{host}]:{port}" if listener.family is socket.AF_INET6 else f"http://{host}:{port}"
    typer.echo(f"Holdfast is running at {address}")
    for path, what in (("/errors/", "every fault, with its page"), ("/health", "is it up?")):
        typer.echo(f"  {address + path:<40}{what}")
    typer.echo("Stop with Ctrl-C.")
