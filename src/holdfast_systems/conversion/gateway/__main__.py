"""`python -m holdfast_systems.conversion.gateway`: the gateway as a process of its own, until it is told to stop.

Always true: the address that is printed accepts connections and converts, and SIGTERM or Ctrl-C ends with code 0.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory

import uvicorn

from holdfast.base import Secret, world
from holdfast.catalog import Failure
from holdfast.testing.ports import listening_socket
from holdfast_systems.conversion.gateway.app import Desk, gateway_app
from holdfast_systems.conversion.gateway.limits import GatewayLimits
from holdfast_systems.conversion.gateway.pool import Pool

TOKEN_VARIABLE = "HOLDFAST_GATEWAY_TOKEN"  # noqa: S105 - the name of a variable
ANNOUNCED = "The conversion gateway is running at "
KEEP_ALIVE_S = 75
"""Longer than clients keep a connection that they do not use: none is closed as its next request comes."""
TOKEN_BYTES = 24
STOP_S_MAX = 2
"""Requests that are not done so long after the signal are cut off; their clients try again."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal comes."""
    chosen = _options().parse_args(arguments)
    limits = GatewayLimits(**{part.name: getattr(chosen, part.name) for part in fields(GatewayLimits)})
    pool = Pool(limits)
    try:
        listener = listening_socket(chosen.port or None)
        # Connections take this over; without it, each reply waits for the client's acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pool.start()
    except (OSError, Failure) as refused:
        print(f"The conversion gateway cannot start: {refused}", file=sys.stderr)  # noqa: T201 - a command line
        return 1
    with TemporaryDirectory(prefix="gateway-", dir=chosen.folder) as folder, listener:
        desk = Desk(pool, Path(folder), limits)
        config = uvicorn.Config(
            gateway_app(desk, limits, faults=_switches(os.environ) if chosen.faults else None),
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            # Without it, a connection's later requests may run in the context of an earlier one, with its deadline.
            reset_contextvars=True,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=STOP_S_MAX,
        )
        server = uvicorn.Server(config)
        _stop_on_signals(server)
        if chosen.with_parent:
            threading.Thread(target=_outlive_nobody, daemon=True).start()
        print(f"{ANNOUNCED}http://127.0.0.1:{listener.getsockname()[1]}", flush=True)  # noqa: T201 - a command line
        try:
            server.run(sockets=[listener])
        finally:
            pool.stop()
            desk.close()
    return 0


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m holdfast_systems.conversion.gateway", description=main.__doc__)
    options.add_argument("--port", type=int, default=0, help="on loopback; 0 takes any free one")
    options.add_argument("--folder", type=Path, help="for files that last as long as a request")
    options.add_argument(
        "--faults", action="store_true", help=f"let faults be switched at /faults, with the token in {TOKEN_VARIABLE}"
    )
    options.add_argument("--with-parent", action="store_true", help="end when standard input ends")
    for part in fields(GatewayLimits):
        options.add_argument(f"--{part.name.replace('_', '-')}", type=int, default=part.default, help="a limit")
    return options


def _switches(environment: Mapping[str, str]) -> Secret:
    """The token that `/faults` asks for: the one given, or a new one that is printed."""
    given = environment.get(TOKEN_VARIABLE, "")
    token = Secret(given or world().token_bytes(TOKEN_BYTES).hex())
    if not given:
        print(f"The token of /faults is {token.reveal()}", file=sys.stderr)  # noqa: T201 - a command line
    return token


def _stop_on_signals(server: uvicorn.Server) -> None:
    def stop(*_: object) -> None:
        server.should_exit = True

    # Uvicorn raises the signal again once it has stopped; with a handler of ours that is not a death by signal.
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


def _outlive_nobody() -> None:
    """The parent holds the other end of our input; it closes when the parent is gone, however that came about."""
    # Not by way of sys.stdin: a thread that waits inside it keeps the interpreter from ending in order.
    while os.read(0, 1_024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
